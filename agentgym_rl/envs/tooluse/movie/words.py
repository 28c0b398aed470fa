"""What invented films are made of."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.tooluse.names import split

ADJECTIVES = split(
    """
    Amber Ancient Borrowed Broken Burning Careful Cold Crooked Crystal Distant Double Electric Empty Endless Fading
    Final First Forgotten Frozen Gentle Golden Hidden Hollow Honest Inner Iron Last Lonely Lost Lucky Midnight
    Narrow Northern Open Paper Patient Perfect Pale Quiet Red Restless Sacred Second Secret Seventh Shallow Silent
    Silver Sleeping Slow Southern Stolen Strange Sudden Tender Thirsty Unseen Velvet Wild Winter
    """
)
NOUNS = split(
    """
    Alibi Anchor Archive Avenue Bakery Balcony Ballad Bargain Border Bridge Cabin Canyon Carnival Cathedral Circle
    Clock Coast Compass Concert Corridor Crossing Crown Dancer Detective Diary Dinner Echo Empire Engine Envelope
    Evening Farewell Festival Fire Forest Fortune Fountain Garden Ghost Glacier Harbor Harvest Horizon Hotel Hour
    Hunter Island Journey Juror Key Kingdom Ladder Lantern Letter Lighthouse Map Market Mirror Monsoon Motel
    Mountain Neighbor Nurse Oath Orchard Orchestra Painter Parade Passenger Pilot Planet Promise Proof Railway Rebel
    Recipe River Road Room Savage Season Shadow Shore Signal Sister Staircase Station Stranger Summer Tailor Teacher
    Tide Tower Trial Tunnel Valley Verdict Village Voyage Waltz Weather Whisper Widow Window Witness
    """
)
PATTERNS = (
    "The {adjective} {noun}",
    "{adjective} {noun}",
    "The {noun} of {other}",
    "{noun} and {other}",
    "A {noun} in {other}",
)

TRAITS = split(
    """
    Captain Doctor Judge Sergeant Professor Inspector Sister Baron Madame Coach Old Young Uncle Aunt Mayor Agent
    """
)

GENRES: Mapping[str, int] = {
    "Action": 28,
    "Adventure": 12,
    "Animation": 16,
    "Comedy": 35,
    "Crime": 80,
    "Documentary": 99,
    "Drama": 18,
    "Family": 10751,
    "Fantasy": 14,
    "History": 36,
    "Horror": 27,
    "Music": 10402,
    "Mystery": 9648,
    "Romance": 10749,
    "Science Fiction": 878,
    "Thriller": 53,
    "War": 10752,
    "Western": 37,
}
"""Genres with the numbers The Movie Database gives them."""

COUNTRIES: Mapping[str, str] = {
    "AR": "Argentina",
    "AU": "Australia",
    "BR": "Brazil",
    "CA": "Canada",
    "CN": "China",
    "DE": "Germany",
    "DK": "Denmark",
    "EG": "Egypt",
    "ES": "Spain",
    "FR": "France",
    "GB": "United Kingdom",
    "IN": "India",
    "IT": "Italy",
    "JP": "Japan",
    "KR": "South Korea",
    "MX": "Mexico",
    "NG": "Nigeria",
    "PL": "Poland",
    "SE": "Sweden",
    "US": "United States of America",
}

BIRTHPLACES = split(
    """
    Accra, Ghana; Adelaide, Australia; Aarhus, Denmark; Bergen, Norway; Bilbao, Spain; Bristol, England; Bologna,
    Italy; Cairo, Egypt; Calgary, Canada; Cardiff, Wales; Chennai, India; Cork, Ireland; Dakar, Senegal; Daegu,
    South Korea; Denver, Colorado, USA; Detroit, Michigan, USA; Dresden, Germany; Fukuoka, Japan; Gdansk, Poland;
    Ghent, Belgium; Glasgow, Scotland; Graz, Austria; Izmir, Turkey; Kampala, Uganda; Kolkata, India; Lagos,
    Nigeria; Leeds, England; Lima, Peru; Lyon, France; Malmo, Sweden; Medellin, Colombia; Memphis, Tennessee, USA;
    Nagoya, Japan; Nantes, France; Odesa, Ukraine; Oulu, Finland; Palermo, Italy; Porto, Portugal; Quito, Ecuador;
    Recife, Brazil; Rosario, Argentina; Rotterdam, Netherlands; Seattle, Washington, USA; Shenyang, China; Split,
    Croatia; Tallinn, Estonia; Tucson, Arizona, USA; Valencia, Spain; Wellington, New Zealand; Zurich, Switzerland
    """,
    ";",
)

STUDIOS = tuple(
    f"{first} {last}" for first in ADJECTIVES[:12] for last in ("Pictures", "Films", "Studios", "Productions")
)

KEYWORDS = split(
    """
    amnesia, apprentice, arranged marriage, auction, bank robbery, betrayal, blackmail, boarding school, border
    town, boxing, chess, circus, con artist, coming of age, conspiracy, cooking, courtroom, cult, desert, diplomacy,
    double life, dream, earthquake, espionage, exile, expedition, family secret, fishing, forgery, found family,
    friendship, funeral, grief, haunted house, heist, hospital, hostage, immigration, inheritance, island, jazz,
    journalism, kidnapping, lighthouse, loneliness, lottery, memory, mistaken identity, monastery, motherhood,
    mountain, murder, neighbors, obsession, opera, orphan, painting, parallel world, pirate, poker, politics,
    prison, prophecy, rags to riches, railway, rebellion, refugee, revenge, rivalry, road trip, robot, rural life,
    sailing, secret society, shipwreck, sibling, small town, space, sports team, stage, survival, teacher, time
    travel, train, treasure, twins, undercover, unemployment, village, violin, volcano, war, wedding, whistleblower,
    wilderness, winter
    """,
    ",",
)

JOBS = (
    "Producer",
    "Writer",
    "Editor",
    "Original Music Composer",
    "Director of Photography",
    "Casting",
    "Costume Design",
)
"""Jobs one person may have beside one director, one producer and one writer."""

LANGUAGES: Mapping[str, tuple[str, str, str, str]] = {
    "NL": ("nl", "Nederlands", "Dutch", "Een verhaal over {} en {}."),
    "CN": ("zh", "普通话", "Mandarin", "一个关于{}和{}的故事。"),
    "US": ("en", "English", "English", "A story about {} and {}."),
    "DE": ("de", "Deutsch", "German", "Eine Geschichte über {} und {}."),
    "RU": ("ru", "Русский", "Russian", "История про {} и {}."),
    "JP": ("ja", "日本語", "Japanese", "{}と{}の物語。"),
}
"""By country: code and names of its language, and how an overview reads in it."""

THEMES: tuple[Mapping[str, str], ...] = tuple(
    dict(zip(LANGUAGES, line.split(), strict=True))
    for line in (
        "oorlog 战争 war Krieg войну 戦争",
        "liefde 爱情 love Liebe любовь 愛",
        "vriendschap 友谊 friendship Freundschaft дружбу 友情",
        "geld 金钱 money Geld деньги お金",
        "wraak 复仇 revenge Rache месть 復讐",
        "sneeuw 雪 snow Schnee снег 雪",
        "familie 家庭 family Familie семью 家族",
        "muziek 音乐 music Musik музыку 音楽",
        "hoop 希望 hope Hoffnung надежду 希望",
        "vrijheid 自由 freedom Freiheit свободу 自由",
        "geluk 幸福 happiness Glück счастье 幸福",
        "dromen 梦想 dreams Träume мечты 夢",
    )
)
"""What overviews are about."""

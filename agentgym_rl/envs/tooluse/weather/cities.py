"""Cities: coordinates and heights, approximate, as anyone may look them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_TABLE = """
Shanghai CN 31.22 121.46 4; Beijing CN 39.91 116.40 49; Guangzhou CN 23.12 113.25 15; Chengdu CN 30.67 104.07 500
Wuhan CN 30.58 114.27 37; Xi'an CN 34.26 108.93 405; Harbin CN 45.75 126.65 150; Kunming CN 25.04 102.72 1892
Lhasa CN 29.65 91.10 3650; Urumqi CN 43.80 87.60 860; Dalian CN 38.91 121.60 29; Nanning CN 22.82 108.32 79
Tokyo JP 35.69 139.69 40; Osaka JP 34.69 135.50 24; Sapporo JP 43.06 141.35 29; Fukuoka JP 33.60 130.42 12
Nagoya JP 35.18 136.91 15; Sendai JP 38.27 140.87 40; Hiroshima JP 34.40 132.45 8; Naha JP 26.21 127.68 5
Seoul KR 37.57 126.98 38; Busan KR 35.10 129.04 10; Daegu KR 35.87 128.59 49; Taipei TW 25.05 121.53 9
Manila PH 14.60 120.98 13; Cebu PH 10.32 123.89 17; Davao PH 7.07 125.61 22; Hanoi VN 21.03 105.85 16
Da Nang VN 16.07 108.22 7; Bangkok TH 13.75 100.50 12; Chiang Mai TH 18.79 98.98 310; Phnom Penh KH 11.56 104.92 12
Vientiane LA 17.97 102.60 174; Yangon MM 16.81 96.16 30; Mandalay MM 22.00 96.08 80; Singapore SG 1.29 103.85 23
Kuala Lumpur MY 3.14 101.69 56; Jakarta ID -6.21 106.85 8; Surabaya ID -7.25 112.75 5; Medan ID 3.58 98.67 26
Makassar ID -5.15 119.43 5; Delhi IN 28.65 77.23 227; Mumbai IN 19.07 72.88 14; Kolkata IN 22.56 88.36 11
Chennai IN 13.09 80.28 7; Bengaluru IN 12.97 77.59 920; Hyderabad IN 17.38 78.46 515; Jaipur IN 26.92 75.79 431
Ahmedabad IN 23.03 72.59 55; Shimla IN 31.10 77.17 2206; Hyderabad PK 25.39 68.37 28; Karachi PK 24.86 67.01 14
Lahore PK 31.56 74.35 217; Quetta PK 30.18 67.00 1680; Dhaka BD 23.71 90.41 8; Colombo LK 6.93 79.85 7
Kathmandu NP 27.72 85.32 1317; Thimphu BT 27.47 89.64 2334; Kabul AF 34.53 69.17 1798; Herat AF 34.35 62.20 927
Tashkent UZ 41.26 69.22 424; Samarkand UZ 39.65 66.96 720; Almaty KZ 43.25 76.95 787; Astana KZ 51.18 71.45 350
Bishkek KG 42.87 74.59 767; Dushanbe TJ 38.54 68.78 803; Ulaanbaatar MN 47.91 106.88 1300; Tehran IR 35.69 51.42 1179
Isfahan IR 32.65 51.67 1578; Shiraz IR 29.61 52.53 1519; Tabriz IR 38.08 46.29 1366; Baghdad IQ 33.34 44.40 41
Basra IQ 30.51 47.78 11; Riyadh SA 24.69 46.72 612; Jeddah SA 21.49 39.19 12; Abha SA 18.22 42.51 2200
Doha QA 25.29 51.53 10; Dubai AE 25.08 55.31 5; Muscat OM 23.58 58.41 8; Sanaa YE 15.35 44.21 2253
Amman JO 31.96 35.95 781; Damascus SY 33.51 36.29 691; Beirut LB 33.89 35.50 35; Haifa IL 32.82 34.99 40
Nicosia CY 35.17 33.36 149; Ankara TR 39.92 32.85 874; Istanbul TR 41.01 28.95 39; Izmir TR 38.41 27.14 25
Erzurum TR 39.91 41.28 1893; Tbilisi GE 41.69 44.83 451; Yerevan AM 40.18 44.51 994; Baku AZ 40.38 49.89 -28
Moscow RU 55.75 37.62 144; Saint Petersburg RU 59.94 30.31 11; Kazan RU 55.79 49.12 61; Samara RU 53.20 50.15 117
Yekaterinburg RU 56.86 60.61 237; Novosibirsk RU 55.04 82.93 150; Irkutsk RU 52.30 104.30 440
Yakutsk RU 62.03 129.73 101; Vladivostok RU 43.11 131.87 40; Murmansk RU 68.97 33.09 50; Volgograd RU 48.72 44.50 40
Kyiv UA 50.45 30.52 179; Lviv UA 49.84 24.02 296; Odesa UA 46.48 30.73 40; Minsk BY 53.90 27.57 222
Chisinau MD 47.01 28.86 85; Warsaw PL 52.23 21.01 113; Krakow PL 50.06 19.94 219; Gdansk PL 54.35 18.65 7
Wroclaw PL 51.10 17.03 120; Vilnius LT 54.69 25.28 112; Riga LV 56.95 24.11 6; Tallinn EE 59.44 24.75 9
Helsinki FI 60.17 24.94 26; Oulu FI 65.01 25.47 15; Rovaniemi FI 66.50 25.72 80; Stockholm SE 59.33 18.07 28
Gothenburg SE 57.71 11.97 12; Kiruna SE 67.86 20.23 530; Oslo NO 59.91 10.75 23; Bergen NO 60.39 5.32 12
Tromso NO 69.65 18.96 10; Trondheim NO 63.43 10.40 18; Copenhagen DK 55.68 12.57 14; Aarhus DK 56.16 10.21 30
Reykjavik IS 64.14 -21.90 37; Akureyri IS 65.68 -18.10 10; Berlin DE 52.52 13.41 74; Hamburg DE 53.55 9.99 6
Munich DE 48.14 11.58 524; Cologne DE 50.93 6.95 58; Frankfurt DE 50.12 8.68 113; Leipzig DE 51.34 12.37 116
Stuttgart DE 48.78 9.18 252; Vienna AT 48.21 16.37 171; Innsbruck AT 47.26 11.39 574; Salzburg AT 47.80 13.04 424
Zurich CH 47.37 8.55 408; Geneva CH 46.20 6.15 375; Davos CH 46.80 9.84 1560; Paris FR 48.85 2.35 42
Lyon FR 45.75 4.85 173; Marseille FR 43.30 5.38 28; Toulouse FR 43.60 1.44 150; Bordeaux FR 44.84 -0.58 16
Nantes FR 47.22 -1.55 18; Strasbourg FR 48.58 7.75 143; Nice FR 43.70 7.27 25; Brussels BE 50.85 4.35 28
Amsterdam NL 52.37 4.89 13; London GB 51.51 -0.13 25; Birmingham GB 52.48 -1.90 140; Manchester GB 53.48 -2.24 38
Edinburgh GB 55.95 -3.20 47; Cardiff GB 51.48 -3.18 15; Belfast GB 54.60 -5.93 16; Inverness GB 57.48 -4.22 20
Dublin IE 53.33 -6.25 17; Cork IE 51.90 -8.47 16; Madrid ES 40.42 -3.70 657; Barcelona ES 41.39 2.16 47
Valencia ES 39.47 -0.38 16; Seville ES 37.39 -5.98 12; Granada ES 37.19 -3.61 690; Bilbao ES 43.26 -2.93 19
Palma ES 39.57 2.65 22; Lisbon PT 38.72 -9.13 45; Porto PT 41.15 -8.61 104; Rome IT 41.89 12.51 20
Milan IT 45.46 9.19 122; Naples IT 40.85 14.27 28; Turin IT 45.07 7.69 245; Palermo IT 38.12 13.36 22
Florence IT 43.78 11.25 50; Venice IT 45.44 12.33 2; Athens GR 37.98 23.73 70; Thessaloniki GR 40.64 22.94 22
Heraklion GR 35.33 25.14 36; Sofia BG 42.70 23.32 562; Varna BG 43.21 27.91 58; Bucharest RO 44.43 26.11 83
Cluj RO 46.77 23.60 356; Belgrade RS 44.80 20.47 117; Zagreb HR 45.81 15.98 130; Split HR 43.51 16.44 25
Sarajevo BA 43.85 18.36 534; Skopje MK 42.00 21.43 246; Tirana AL 41.33 19.82 110; Ljubljana SI 46.05 14.51 295
Budapest HU 47.50 19.04 104; Debrecen HU 47.53 21.62 121; Prague CZ 50.09 14.42 202; Brno CZ 49.20 16.61 219
Kosice SK 48.71 21.26 208; Cairo EG 30.06 31.25 23; Alexandria EG 31.20 29.92 5; Aswan EG 24.09 32.90 101
Tripoli LY 32.88 13.19 20; Tunis TN 36.82 10.17 20; Algiers DZ 36.75 3.04 24; Oran DZ 35.70 -0.64 100
Casablanca MA 33.59 -7.61 27; Marrakesh MA 31.63 -8.00 466; Ifrane MA 33.53 -5.11 1665; Dakar SN 14.69 -17.44 22
Bamako ML 12.65 -8.00 350; Accra GH 5.56 -0.20 61; Lagos NG 6.45 3.39 11; Abuja NG 9.06 7.49 476
Kano NG 12.00 8.52 476; Douala CM 4.05 9.70 13; Kinshasa CD -4.33 15.31 240; Luanda AO -8.84 13.23 6
Addis Ababa ET 9.02 38.75 2355; Nairobi KE -1.28 36.82 1661; Mombasa KE -4.05 39.66 17; Kampala UG 0.32 32.58 1190
Kigali RW -1.95 30.06 1567; Dodoma TZ -6.17 35.74 1120; Lusaka ZM -15.41 28.29 1279; Harare ZW -17.83 31.05 1490
Maputo MZ -25.97 32.58 47; Antananarivo MG -18.91 47.54 1276; Windhoek NA -22.56 17.08 1655
Gaborone BW -24.65 25.91 1014; Durban ZA -29.86 31.03 8; Johannesburg ZA -26.20 28.04 1753
Cape Town ZA -33.93 18.42 25; Maseru LS -29.32 27.48 1600; Khartoum SD 15.55 32.53 382; Sydney AU -33.87 151.21 58
Melbourne AU -37.81 144.96 25; Brisbane AU -27.47 153.03 27; Perth AU -31.95 115.86 20; Adelaide AU -34.93 138.60 50
Hobart AU -42.88 147.33 13; Darwin AU -12.46 130.84 30; Alice Springs AU -23.70 133.88 545
Canberra AU -35.28 149.13 578; Cairns AU -16.92 145.77 3; Auckland NZ -36.85 174.76 26; Wellington NZ -41.29 174.78 31
Christchurch NZ -43.53 172.63 20; Queenstown NZ -45.03 168.66 330; Suva FJ -18.14 178.44 6; Apia WS -13.83 -171.77 2
New York US 40.71 -74.01 10; Los Angeles US 34.05 -118.24 89; Chicago US 41.85 -87.65 179; Houston US 29.76 -95.36 30
Phoenix US 33.45 -112.07 331; Philadelphia US 39.95 -75.16 12; San Antonio US 29.42 -98.49 198
San Diego US 32.72 -117.16 20; Dallas US 32.78 -96.81 131; Austin US 30.27 -97.74 165; Denver US 39.74 -104.98 1609
Seattle US 47.61 -122.33 56; Boston US 42.36 -71.06 14; Miami US 25.77 -80.19 2; Atlanta US 33.75 -84.39 320
Detroit US 42.33 -83.05 183; Minneapolis US 44.98 -93.26 252; Portland US 45.52 -122.68 15
Portland US 43.66 -70.26 19; Las Vegas US 36.17 -115.14 613; Salt Lake City US 40.76 -111.89 1288
Santa Fe US 35.69 -105.94 2134; Nashville US 36.17 -86.78 169; New Orleans US 29.95 -90.08 1
Kansas City US 39.10 -94.58 277; Omaha US 41.26 -95.94 332; Boise US 43.61 -116.20 825; Fargo US 46.88 -96.79 276
Anchorage US 61.22 -149.90 31; Fairbanks US 64.84 -147.72 136; Honolulu US 21.31 -157.86 18
Birmingham US 33.52 -86.80 187; Cleveland US 41.50 -81.70 199; Pittsburgh US 40.44 -80.00 239
Charlotte US 35.23 -80.84 229; Richmond US 37.55 -77.46 50; Paris US 33.66 -95.56 183; Athens US 33.96 -83.38 194
Flagstaff US 35.20 -111.65 2106; Cheyenne US 41.14 -104.82 1848; Toronto CA 43.70 -79.42 175
Montreal CA 45.51 -73.59 216; Vancouver CA 49.25 -123.12 70; Calgary CA 51.05 -114.09 1048
Winnipeg CA 49.88 -97.15 232; Halifax CA 44.65 -63.57 18; London CA 42.98 -81.23 252; Whitehorse CA 60.72 -135.05 640
Iqaluit CA 63.75 -68.52 34; Quebec CA 46.81 -71.21 54; Regina CA 50.45 -104.62 577; Mexico City MX 19.43 -99.13 2240
Guadalajara MX 20.67 -103.35 1560; Monterrey MX 25.67 -100.32 540; Merida MX 20.97 -89.62 10
Oaxaca MX 17.06 -96.72 1555; Guatemala City GT 14.64 -90.51 1508; San Salvador SV 13.69 -89.19 658
Managua NI 12.13 -86.25 83; San Jose CR 9.93 -84.08 1161; San Jose US 37.34 -121.89 23; Panama City PA 8.99 -79.52 11
Havana CU 23.13 -82.38 59; Kingston JM 18.00 -76.79 9; Santo Domingo DO 18.49 -69.93 14; San Juan PR 18.47 -66.11 8
San Juan AR -31.54 -68.54 640; Bogota CO 4.61 -74.08 2582; Medellin CO 6.25 -75.56 1495; Cartagena CO 10.40 -75.51 2
Cartagena ES 37.61 -0.99 10; Caracas VE 10.49 -66.88 887; Valencia VE 10.16 -68.00 479; Merida VE 8.60 -71.14 1610
Quito EC -0.23 -78.52 2850; Guayaquil EC -2.20 -79.90 4; Lima PE -12.04 -77.03 154; Cusco PE -13.52 -71.98 3399
La Paz BO -16.50 -68.15 3640; Asuncion PY -25.29 -57.65 54; Montevideo UY -34.90 -56.19 43
Buenos Aires AR -34.61 -58.38 31; Cordoba AR -31.41 -64.18 390; Cordoba ES 37.88 -4.77 106
Mendoza AR -32.89 -68.83 746; Ushuaia AR -54.81 -68.31 23; Santiago CL -33.46 -70.65 570; Santiago DO 19.45 -70.70 175
Punta Arenas CL -53.15 -70.92 34; Antofagasta CL -23.65 -70.40 40; Brasilia BR -15.78 -47.93 1172
Sao Paulo BR -23.55 -46.64 769; Rio de Janeiro BR -22.91 -43.18 7; Salvador BR -12.98 -38.48 8
Recife BR -8.05 -34.88 4; Manaus BR -3.10 -60.03 92; Curitiba BR -25.43 -49.27 935; Porto Alegre BR -30.03 -51.23 10
Nuuk GL 64.18 -51.74 5; Longyearbyen SJ 78.22 15.64 17; Ottawa CA 45.41 -75.70 70; Belem BR -1.46 -48.50 10
"""
"""Entries ``name country latitude longitude height``; of several places of a name the best known stands first."""


@dataclass(frozen=True, slots=True)
class City:
    """A place. Degrees, metres."""

    name: str
    country: str
    latitude: float
    longitude: float
    elevation: int


def _read(entry: str) -> City:
    name, country, latitude, longitude, elevation = entry.strip().rsplit(maxsplit=4)
    return City(name, country, float(latitude), float(longitude), int(elevation))


CITIES: tuple[City, ...] = tuple(_read(entry) for line in _TABLE.strip().splitlines() for entry in line.split(";"))

_NAMES = [city.name for city in CITIES]

UNIQUE: tuple[City, ...] = tuple(city for city in CITIES if _NAMES.count(city.name) == 1)
"""Cities that share their name with no other."""

BY_NAME: Mapping[str, tuple[City, ...]] = {
    name.casefold(): tuple(city for city in CITIES if city.name == name) for name in _NAMES
}

"""Projects and tasks an account may hold."""

from __future__ import annotations

from collections.abc import Mapping

PLACES: Mapping[str, tuple[str, ...]] = {
    "Home": ("Kitchen", "Living room", "Home office"),
    "School": ("Library", "Student Building", "Room 204", "Science wing"),
    "Work": ("Head office", "Meeting room 3", "Home office", "Training centre"),
    "Town": ("Town hall", "Market square", "Shopping centre", "Post office"),
    "Outside": ("Back garden", "River park", "Allotment", "Sports field"),
    "Health": ("Health centre", "Swimming pool", "Gym", "Pharmacy"),
}
"""Where tasks take place, by kind of project."""

CATALOGUE: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "Household Chores": (
        "Home",
        (
            ("Clean the oven", "oven cleaner and gloves"),
            ("Wash the curtains", "mild detergent"),
            ("Defrost the freezer", "old towels and a bowl"),
            ("Dust the bookshelves", "microfibre cloth"),
            ("Mop the hallway", "bucket and mop"),
            ("Sort the recycling", "three paper bags"),
        ),
    ),
    "Home Repairs": (
        "Home",
        (
            ("Fix the dripping tap", "adjustable spanner"),
            ("Paint the spare room", "roller and two tins of paint"),
            ("Replace the smoke alarm battery", "9 volt battery"),
            ("Oil the squeaking door", "oil can"),
            ("Hang the new mirror", "drill and wall plugs"),
            ("Seal the bathroom tiles", "silicone and scraper"),
        ),
    ),
    "Kitchen Plans": (
        "Home",
        (
            ("Bake bread for the weekend", "flour and yeast"),
            ("Plan the weekly menu", "recipe book"),
            ("Make plum jam", "jars and sugar"),
            ("Sharpen the knives", "whetstone"),
            ("Label the spice rack", "stickers and a pen"),
        ),
    ),
    "Homework": (
        "School",
        (
            ("Solve the geometry worksheet", "ruler and compass"),
            ("Write the book report", "copy of the novel"),
            ("Learn the Spanish vocabulary", "flash cards"),
            ("Summarize the chapter on trade", "history textbook"),
            ("Draw the map of Africa", "coloured pencils"),
            ("Revise for the physics test", "formula sheet"),
        ),
    ),
    "Science Fair": (
        "School",
        (
            ("Grow the crystal samples", "alum and thread"),
            ("Measure the plant heights", "tape measure"),
            ("Print the poster", "memory stick"),
            ("Rehearse the presentation", "note cards"),
            ("Build the display stand", "cardboard and glue"),
        ),
    ),
    "School Clubs": (
        "School",
        (
            ("Attend the chess club", "chess clock"),
            ("Rehearse with the choir", "sheet music"),
            ("Prepare the debate speech", "research notes"),
            ("Edit the school newspaper", "laptop"),
            ("Collect the drama costumes", "two large bags"),
        ),
    ),
    "Office": (
        "Work",
        (
            ("Send the expense claim", "taxi receipts"),
            ("Review the budget draft", "last year's figures"),
            ("Update the project timeline", "planning sheet"),
            ("Call the paper supplier", "order number"),
            ("Archive the old contracts", "storage boxes"),
            ("Back up the shared drive", "external disk"),
        ),
    ),
    "Product Launch": (
        "Work",
        (
            ("Test the sign-up page", "list of test accounts"),
            ("Draft the press release", "product fact sheet"),
            ("Book the demo booth", "company card"),
            ("Record the tutorial video", "microphone"),
            ("Translate the user guide", "glossary"),
        ),
    ),
    "Training": (
        "Work",
        (
            ("Finish the safety course", "login details"),
            ("Read the onboarding manual", "staff handbook"),
            ("Practise the sales pitch", "slides"),
            ("Register for the conference", "travel form"),
            ("Mentor the new intern", "task list"),
        ),
    ),
    "Errands": (
        "Town",
        (
            ("Renew the passport", "two photos"),
            ("Return the parcel", "return label"),
            ("Collect the dry cleaning", "pick-up ticket"),
            ("Buy printer ink", "empty cartridge"),
            ("Get the spare key cut", "front door key"),
            ("Exchange the wool sweater", "receipt"),
        ),
    ),
    "Family": (
        "Town",
        (
            ("Order the birthday cake", "guest count"),
            ("Choose a gift for grandma", "wrapping paper"),
            ("Book the family photo", "matching scarves"),
            ("Register the kids for swimming", "birth certificates"),
            ("Plan the anniversary dinner", "restaurant list"),
        ),
    ),
    "Garden": (
        "Outside",
        (
            ("Plant the tulip bulbs", "hand trowel"),
            ("Prune the apple tree", "ladder and shears"),
            ("Build a raised bed", "timber and screws"),
            ("Mow the lawn", "petrol can"),
            ("Turn the compost", "garden fork"),
            ("Water the tomatoes", "watering can"),
        ),
    ),
    "Camping Trip": (
        "Outside",
        (
            ("Check the tent for holes", "repair tape"),
            ("Test the gas stove", "spare cartridge"),
            ("Wax the hiking boots", "boot wax"),
            ("Mark the route on the map", "waterproof pen"),
            ("Pack the first aid kit", "plasters and tweezers"),
        ),
    ),
    "Fitness": (
        "Health",
        (
            ("Swim forty lengths", "goggles"),
            ("Stretch for the half marathon", "yoga mat"),
            ("Lift weights with a partner", "gym card"),
            ("Join the spinning class", "water bottle"),
            ("Log the weekly runs", "running watch"),
        ),
    ),
    "Health": (
        "Health",
        (
            ("Book the dentist", "insurance card"),
            ("Pick up the prescription", "prescription slip"),
            ("Get the flu vaccination", "vaccination record"),
            ("Order new contact lenses", "lens prescription"),
            ("Measure the blood pressure", "cuff monitor"),
        ),
    ),
    "Music": (
        "Home",
        (
            ("Restring the guitar", "new strings"),
            ("Practise the piano sonata", "metronome"),
            ("Tune the violin", "tuning fork"),
            ("Record the demo song", "headphones"),
            ("Copy the band's set list", "printer paper"),
        ),
    ),
}
"""Project names with the kind of place and their tasks: name, and what to bring. No task is in two projects."""

PEOPLE = (
    "Ana Duarte", "Bilal Khan", "Chloe Martin", "Dev Patel", "Elena Rossi", "Femi Adeyemi", "Greta Lind", "Hugo Weber",
    "Ines Moreau", "Jonas Berg", "Keiko Sato", "Liam Doyle", "Mina Park", "Noor Haddad", "Oscar Nowak", "Priya Nair",
    "Quinn Walsh", "Rosa Vega", "Sven Holm", "Tara Singh",
)  # fmt: skip
"""Whom to ask about a task."""

CITIES = (
    "Berlin",
    "Boston",
    "Dublin",
    "Lisbon",
    "Lyon",
    "Madrid",
    "Oslo",
    "Prague",
    "Seattle",
    "Toronto",
    "Turin",
    "Utrecht",
)

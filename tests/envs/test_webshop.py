"""WebShop's reward, its pages, and what a customer may do on them."""

import asyncio
import re
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("Stemmer")

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.envs.webshop.nouns import nouns
from agentgym_rl.envs.webshop.product import NO_CAP, Goal, Product, price_cap
from agentgym_rl.envs.webshop.reward import reward, title_score
from agentgym_rl.envs.webshop.shop import BM25, Shop, parse, words

SHOE = Product(
    asin="B000000001",
    title="Velmora Drift Running Shoes",
    description="Good on gravel.",
    bullets=("Rubber sole", "Machine washable"),
    options={"color": ("dark green", "black"), "size": ("7", "8")},
    attributes=("arch support", "memory foam"),
    price=39.99,
    price_tag="$39.99",
    query="running shoes",
    category="Clothing \u203a Shoes \u203a Running Shoes",
)
GOAL = Goal(SHOE, "Find me shoes", ("arch support", "rubber sole"), ("dark green", "8"), 50.0)
RIGHT = ("dark green", "8")


def earned(product=SHOE, options=RIGHT, goal=GOAL):
    return reward(product, options, goal)[0]


# ---------------------------------------------------------------------------------------------------------- the reward


def test_the_right_purchase_earns_all():
    """(2 attributes + 2 options + the price) / (2 + 2 + 1); "rubber sole" is only in a bullet."""
    assert reward(SHOE, RIGHT, GOAL) == (1.0, {"r_type": 1.0, "r_att": 1.0, "r_option": 1.0, "r_price": 1.0})


@pytest.mark.parametrize(
    ("product", "options", "expected"),
    [
        (replace(SHOE, attributes=()), RIGHT, 4 / 5),  # arch support is nowhere
        (replace(SHOE, attributes=(), description="Arch Support"), RIGHT, 1.0),
        (replace(SHOE, attributes=("arch supports",)), RIGHT, 1.0),  # alike
        (replace(SHOE, bullets=()), RIGHT, 4 / 5),
        (SHOE, ("dark green",), 4 / 5),
        (SHOE, (), 3 / 5),
        (SHOE, ("black", "8"), 4 / 5),
        (replace(SHOE, price=50.0), RIGHT, 1.0),
        (replace(SHOE, price=50.01), RIGHT, 4 / 5),
    ],
)
def test_attributes_options_and_price_count_one_each(product, options, expected):
    assert earned(product, options) == pytest.approx(expected)


def test_the_first_colour_in_the_list_counts():
    """Both hold "dark", which is before "green"; a value with another first colour is not alike."""
    goal = replace(GOAL, attributes=("arch support",), options=("dark green",))
    assert earned(options=("dark red",), goal=goal) == 1.0
    assert earned(options=("green",), goal=goal) == pytest.approx(2 / 3)


def test_options_of_synthetic_goals_are_compared_with_their_names():
    """("color", "green stripe") is compared as a text: any green is alike. A value that is a colour is that colour."""
    striped = replace(GOAL, attributes=("arch support",), options=(("color", "green stripe"),))
    assert earned(options=("pale green",), goal=striped) == 1.0
    assert earned(options=("black",), goal=striped) == pytest.approx(2 / 3)
    plain = replace(striped, options=(("color", "black"),))
    assert earned(options=("black & white",), goal=plain) == 1.0


def test_a_goal_without_options():
    total, parts = reward(SHOE, ("black", "7"), replace(GOAL, options=()))
    assert (total, parts["r_option"]) == (1.0, None)


TITLE = "Velmora Drift Running Shoes"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 1.0),
        ({"query": "boots", "category": "x", "title": "Shoes for Running"}, 1.0),  # 2 of 4 nouns: more than 0.2
        (
            {"query": "boots", "category": "Shoes \u203a Clothing \u203a x", "title": "Shoes"},
            1.0,
        ),  # two shared categories
        ({"query": "boots", "category": "x", "title": "Boots"}, 0.0),  # no noun
        ({"title": "Boots"}, 0.0),  # none, though the query is equal
    ],
)
def test_the_kind_of_product_scales_the_reward(change, expected):
    assert nouns(TITLE) == ("velmora", "drift", "running", "shoes")
    assert earned(replace(SHOE, **change)) == expected


@pytest.mark.parametrize(
    ("count", "query", "expected"),
    [(4, "boots", 1.0), (5, "boots", 0.5), (5, "running shoes", 1.0), (10, "boots", 0.5), (11, "running shoes", 0.1)],
)
def test_few_shared_nouns(count, query, expected):
    """One of ``count`` nouns is shared: a score above 0.2, of 0.2 to 0.1, and below."""
    names = ["Shoes", *(f"Noun{letter}" for letter in "abcdefghijk"[: count - 1])]
    goal = replace(GOAL, product=replace(SHOE, title=" ".join(names), category="x"))
    assert title_score("Shoes", " ".join(names)) == pytest.approx(1 / count)
    assert earned(replace(SHOE, title="Shoes", query=query), goal=goal) == expected


CABLE = "BRST AC Power Cord Outlet Socket Cable Plug Lead for Panasonic SC-HT830V DVD/VCR Combo Home Theater System"


def test_a_title_without_nouns():
    assert nouns("2 for the beautiful") == () and title_score("Shoes", "for the") == 0.2


@pytest.mark.parametrize(
    ("bought", "expected", "low", "high"),
    [
        (
            "PEAK High Top Mens Basketball Shoes Lou Williams Streetball Master Breathable Non Slip Outdoor Sneakers",
            "Mens D.O.N. Issue 2 Gca Basketball Sneakers Shoes Casual - Off White",
            *(0.2, 1.0),
        ),
        (
            CABLE,
            "Saireed UL Listed 2 Prong Power Cord for JBL Bar 3.1 Bar 2.1 Channel 4K Ultra HD Soundbar Home Theater "
            "System Subwoofer",
            *(0.2, 1.0),
        ),
        (
            CABLE,
            "Saireed UL Listed 2 Prong Power Cord for JBL Bar 3.1 Bar 2.1 Channel 4K Ultra HD Soundbar",
            *(0.1, 0.2),
        ),
        (
            "Minkissy 2pcs Stainless Steel Eyebrow Tweezers Blackhead Acne Remover Portable Makeup Tweezers (Silver)",
            "Rusticware 921ORB Kitchen and Bath Cabinet Knob",
            *(-1, 0.0),
        ),
    ],
)
def test_titles_fall_into_the_classes_that_spacy_gives(bought, expected, low, high):
    """The titles of WebShop's own tests, whose scores there are 0.33, 0.3, 0.15 and less than 0.05."""
    assert low < title_score(bought, expected) <= high


def test_price_limits_are_drawn_from_the_next_four_tens():
    rng = Random(0)
    assert {price_cap(39.99, rng) for _ in range(100)} == {50.0, 60.0, 70.0}
    assert price_cap(10.0, rng) in {30.0, 40.0, 50.0}
    assert (price_cap(975.0, rng), price_cap(980.0, rng)) == (990.0, NO_CAP)


# ----------------------------------------------------------------------------------------------------------- the pages


def shop_of(*products: Product) -> Shop:
    index = Index.over((product.contents for product in products), split=words, **BM25)
    return Shop(products, index, lambda at: GOAL, {})


MANY = shop_of(SHOE, *(replace(SHOE, asin=f"B0000001{n:02}", title=f"Shoes {n}") for n in range(60)))


def seen(actions, shop=None):
    visit = (shop or shop_of(SHOE)).visit(GOAL)
    return [visit.page.text, *(visit.page.text for action in actions if visit.act(action) is not None)], visit


def test_the_text_of_every_page():
    actions = [
        *("search[Drift]", "click[b000000001]", "click[dark green]", "click[description]", "click[< prev]"),
        *("click[features]", "click[< prev]", "click[reviews]", "click[< prev]", "click[buy now]"),
    ]
    pages, visit = seen(actions)
    head = "Instruction: [SEP] Find me shoes [SEP] Back to Search"
    item = (
        f"{head} [SEP] < Prev [SEP] color [SEP] dark green [SEP] black [SEP] size [SEP] 7 [SEP] 8 [SEP] "
        "Velmora Drift Running Shoes [SEP] Price: $39.99 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] "
        "Reviews [SEP] Buy Now"
    )
    assert pages == [
        "WebShop [SEP] Instruction: [SEP] Find me shoes [SEP] Search",
        f"{head} [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] B000000001 [SEP] Velmora Drift Running Shoes [SEP] "
        "$39.99",
        *(item, item),
        *(f"{head} [SEP] < Prev [SEP] Good on gravel.", item),
        *(f"{head} [SEP] < Prev [SEP] Rubber sole [SEP] Machine washable", item),
        *(f"{head} [SEP] < Prev", item),
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk interface.) [SEP] "
        'Purchased [SEP] asin [SEP] B000000001 [SEP] options [SEP] {"color": "dark green"} [SEP] attrs [SEP] None '
        "[SEP] category [SEP] None [SEP] query [SEP] None [SEP] product category [SEP] None [SEP] Target [SEP] asin "
        "[SEP] options [SEP] attrs [SEP] price upper [SEP] instuction text [SEP] category [SEP] product category [SEP] "
        "query [SEP] Goal [SEP] None [SEP] Reward [SEP] Your score (min 0.0, max 1.0) [SEP] 0.8 [SEP] Reward Details "
        "[SEP] None",
    ]
    assert (visit.score, visit.actions) == (0.8, ())


def test_results_come_ten_a_page_and_fifty_at_most():
    pages, _ = seen(["search[shoes]", *["click[next >]"] * 5, "click[< prev]"], MANY)
    assert [page.count("B0") for page in pages] == [0, 10, 10, 10, 10, 10, 0, 10]
    assert "Page 1 (Total results: 50) [SEP] Next > [SEP] B0" in pages[1] and "< Prev" not in pages[1]
    assert pages[6].endswith("Page 6 (Total results: 50) [SEP] < Prev [SEP] Next >")
    assert pages[7] == pages[5]


def test_options_survive_sub_pages_but_not_the_way_back():
    visit = shop_of(SHOE).visit(GOAL)
    for action in (
        "search[shoes]",
        "click[b000000001]",
        "click[black]",
        "click[8]",
        "click[features]",
        "click[< prev]",
    ):
        assert visit.act(action)
    assert visit.options == {"color": "black", "size": "8"}
    assert visit.act("click[< prev]") and (visit.options, visit.product, visit.number) == ({}, None, 1)
    visit.act("click[b000000001]")
    visit.act("click[dark green]")
    assert visit.act("click[back to search]")
    assert (visit.options, visit.product, visit.results, visit.number) == ({}, None, [], 0)
    assert visit.page.text == "WebShop [SEP] Instruction: [SEP] Find me shoes [SEP] Search"


def test_a_search_is_possible_on_every_page():
    pages, visit = seen(["search[shoes]", "click[b000000001]", "search[drift]"])
    assert pages[3] == pages[1] and visit.product is None


@pytest.mark.parametrize(
    "action",
    [
        "buy",
        "click[buy now]",
        "click[search]",
        "click[B9]",
        "search[]",
        "Search[x]",
        " search[x]",
        "search[a [b] c]",
        "",
    ],
)
def test_what_the_page_does_not_offer_changes_nothing(action):
    pages, visit = seen([action])
    assert pages[1] == pages[0] and visit.score is None and not visit.act(action)


def test_an_option_is_clicked_as_either_wording_shows_it():
    spaced = shop_of(replace(SHOE, options={"color": ("red  |  blue", "red |  blue", " green "), "size": ("a \n b",)}))
    for click, chosen in (
        ("red  |  blue", {"color": "red  |  blue"}),
        ("red |  blue", {"color": "red |  blue"}),
        ("red | blue", {"color": "red |  blue"}),  # the last of those that look alike
        ("green", {"color": " green "}),
        ("a b", {"size": "a \n b"}),
        ("red", {}),
    ):
        _, visit = seen(["search[shoes]", "click[b000000001]", f"click[{click}]"], spaced)
        assert visit.options == chosen
    assert "[red | blue] [red | blue] [green]" in visit.page.compact


def test_buttons_go_before_options_of_the_same_name():
    named = replace(SHOE, options={"style": ("buy now", "search", "next >")})
    visit = shop_of(named).visit(GOAL)
    for action in ("search[shoes]", "click[b000000001]", "click[next >]"):
        assert visit.act(action)
    assert visit.options == {"style": "next >"} and not visit.act("click[search]")
    assert visit.act("click[buy now]") and visit.score is not None


@given(st.text(alphabet="abB[]\n ", max_size=30))
def test_actions_are_read_as_webshop_reads_them(action):
    matched = re.match(r"(.+)\[(.+)\]", action)
    assert parse(action) == ((matched[1], matched[2].lower()) if matched else ("", ""))


def test_no_oracle_where_one_option_would_need_two_values():
    product = replace(SHOE, options={"style": ("men", "women small"), "size": ("small", "large")})
    with pytest.raises(OracleUnavailable, match="does not earn 1"):
        shop_of(product).oracle(replace(GOAL, product=product, options=("men", "small")))


def test_searches_rank_by_stems_without_common_words():
    shop = shop_of(SHOE, replace(SHOE, asin="B000000002", title="The Lamps of Velmora's Reading Room", description=""))
    assert shop.index.best("lamp reads", 50) == [1] and shop.index.best("the of", 50) == []
    assert words("The Room's 3.5 runners") == ["room", "3.5", "runner"]


HOSTILE = st.one_of(
    st.sampled_from(["search[shoes]", "click[b000000001]", "click[buy now]", "click[< prev]", "click[next >]"]),
    st.sampled_from(
        ["click[features]", "click[back to search]", "search[%s]" % ("[" * 2000), "click[\x00]", "[" * 3000]
    ),
    st.text(max_size=40),
    st.text(max_size=20).map(lambda text: f"search[{text}]"),
    st.text(max_size=20).map(lambda text: f"click[{text}]"),
)


@given(st.lists(HOSTILE, max_size=20), st.integers(0, 4329), st.sampled_from(["agentgym", "compact"]))
def test_no_action_does_harm(actions, index, style):
    async def shop():
        env = make("webshop", style=style)
        text = (await env.reset(Task("webshop", index))).text
        for action in actions:
            step = await env.step(action)
            assert step.terminated == (step.observation.actions == ()) and 0 <= step.reward <= 1
            assert not step.info["invalid"] or (step.observation.text == text and step.reward == 0)
            text = step.observation.text
            if step.done:
                break
        await env.close()

    asyncio.run(shop())


def test_the_compact_wording_says_what_is_chosen():
    async def shop():
        env = make("webshop", style="compact")
        pages = [(await env.reset(Task("webshop", 3))).text]
        for action in env.oracle(Task("webshop", 3))[:3]:
            pages.append((await env.step(action)).observation.text)
        return pages, env.goal(Task("webshop", 3))

    pages, wish = asyncio.run(shop())
    assert wish in pages[0] and wish not in "".join(pages[1:])
    assert re.search(r"\n\[B0\w{8}\] .* \$\d", pages[1]) and re.search(r"\n\w+ .*\(.+\)", pages[3])

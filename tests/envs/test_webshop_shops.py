"""The built-in shop and one of WebShop's own files: products, goals, splits, and what the oracle earns."""

import asyncio
import json
import subprocess
import sys
from random import Random

import pytest

pytest.importorskip("Stemmer")

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import OracleUnavailable, TaskNotFound
from agentgym_rl.envs.webshop import catalogue, official, open_shop
from agentgym_rl.envs.webshop.reward import has_attribute, options_chosen, reward
from agentgym_rl.envs.webshop.shop import plain

GOALS = {split: [catalogue.goal(index) for index in indices] for split, indices in catalogue.SPLITS.items()}


# ----------------------------------------------------------------------------------------------------------- built in


def test_the_catalogue():
    products = catalogue.products()
    assert len(products) == len({product.asin for product in products}) == 2560
    assert len({product.query for product in products}) == len(catalogue.TEXTS.categories) == 16
    assert all(len(product.asin) == 10 and len(product.options) >= 2 for product in products)
    assert all(len(set(product.attributes)) == 4 and 0 < product.price < 500 for product in products)


@pytest.mark.slow
def test_every_goal_can_be_reached():
    """Buying its product with values that its options offer earns 1; the oracle's search finds it."""
    shop = open_shop()
    for goals in GOALS.values():
        for goal in goals:
            assert reward(goal.product, options_chosen(goal, goal.product.options), goal)[0] == 1
    for goal in GOALS["test"] + GOALS["validation"] + GOALS["train"][::10]:
        actions = shop.oracle(goal)
        assert len(actions) <= 10 and actions[0] == f"search[{plain(goal.product.title)}]"


def test_splits_share_no_product_and_no_instruction():
    assert {split: len(goals) for split, goals in GOALS.items()} == {"train": 3930, "validation": 200, "test": 200}
    for of in (lambda goal: goal.product.asin, lambda goal: goal.instruction):
        parts = [{of(goal) for goal in goals} for goals in GOALS.values()]
        assert len(set().union(*parts)) == sum(map(len, parts))


def test_a_goals_product_has_near_misses():
    """Of a family of four some other member falls short, for nearly every goal."""
    families = {product.asin: family for family in catalogue.families() for product in family}
    short = 0
    for goal in GOALS["test"]:
        earned = [
            reward(product, options_chosen(goal, product.options), goal)[0] for product in families[goal.product.asin]
        ]
        short += any(0.5 < score < 1 for score in earned)
    assert short >= 0.8 * len(GOALS["test"])


def test_attributes_and_values_are_told_apart():
    for category in catalogue.TEXTS.categories:
        product = next(product for product in catalogue.products() if product.query == category.query)
        for attribute in set(category.attributes) - set(product.attributes):
            assert not has_attribute(product, attribute), (category.query, attribute)
    for goal in GOALS["test"]:
        names = {value: name for name, values in goal.product.options.items() for value in values}
        assert options_chosen(goal, goal.product.options) == list(goal.options)
        assert len({names[value] for value in goal.options}) == len(goal.options)


def test_a_server_needs_none_of_the_packages():
    """Facts for a server are there without the extra; the shop itself names it."""
    program = (
        "import sys; sys.modules['Stemmer'] = None; from agentgym_rl.envs import Task, make; env = make('webshop'); "
        "print(len(env.spec.splits['train'])); env.goal(Task('webshop', 0))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.stdout == "3930\n" and "pip install 'agentgym-rl[webshop]'" in process.stderr


# -------------------------------------------------------------------------------------------------- WebShop's own files


def raw(product, **changes):
    """A product as WebShop's file has it."""
    options = {
        name.title(): [{"value": f" {value.upper()} "} for value in values] for name, values in product.options.items()
    }
    return {
        "asin": product.asin,
        "name": product.title,
        "full_description": product.description,
        "small_description": list(product.bullets),
        "pricing": product.price_tag,
        "customization_options": {**options, "Empty": None},
        "query": f" {product.query.title()} ",
        "category": "x",
        "product_category": product.category,
        "images": ["x"],
        **changes,
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files with 800 products in WebShop's form, and the folder that is made of them."""
    folder, rng = tmp_path_factory.mktemp("webshop"), Random(0)
    products = rng.sample(catalogue.products(), 800)
    rows = [raw(product) for product in products]
    rows[0] |= {"pricing": "$10.00$20.5", "small_description": "one text"}
    rows[1] |= {"pricing": None, "customization_options": ""}
    rows[2]["customization_options"]["Size"] = [{"value": "1/2"}, {"value": "3"}]
    rows += [raw(products[0]), raw(products[3], asin="B0000000001"), raw(products[4], asin="nan")]
    marks = {
        product.asin: {
            "attributes": list(product.attributes),
            "instruction": f"Find me {product.query}",
            "instruction_attributes": list(product.attributes[:2]),
        }
        for product in products
    }
    del marks[products[5].asin]["instruction"]
    people = {
        product.asin: [
            {
                "instruction": text,
                "instruction_attributes": list(product.attributes[:most]),
                "instruction_options": options,
            }
            for text, most, options in (("i want this.", 1, ["black"]), ("and that", 4, []), ("nothing", 0, []))
        ]
        for product in products
    }
    for name, content in {"shuffle": rows, "ins_v2": marks, "human_ins": people}.items():
        path = folder / f"items_{name}{'' if name == 'human_ins' else '_1000'}.json"
        path.write_text(json.dumps(content, indent=1 if name == "shuffle" else None))
    assert official.build(folder / "items_shuffle_1000.json", folder / "shop") == 800
    return folder, products, rows, marks


def test_products_are_read_as_webshop_reads_them(files):
    folder, products, *_ = files
    shop = open_shop(str(folder / "shop"))
    assert [product.asin for product in shop.products] == [product.asin for product in products]
    ranged, bare, sized, plain_one = (shop.products[at] for at in range(4))
    assert ranged.price_tag == "$10.0 to $20.5" and 10 <= ranged.price <= 20.5 and ranged.bullets == ("one text",)
    assert (bare.price, bare.price_tag, bare.options) == (100.0, "$100.0", {})
    assert sized.options["size"] == ("1 | 2", "3")
    assert plain_one == products[3]


def test_goals_are_those_of_webshop_in_its_order(files):
    """All combinations of options of each product in turn, then shuffled with seed 233."""
    folder, products, _, marks = files
    shop, texts = open_shop(str(folder / "shop")), []
    for number, _ in enumerate(products):
        product = shop.products[number]
        wishes: list[tuple[str, ...]] = [()]
        for name in sorted(product.options):
            wishes = [(*wish, f"{name}: {value}") for wish in wishes for value in product.options[name]]
        wish = marks[product.asin].get("instruction")
        texts += [wish + (" with " if each else "") + ", and ".join(each) for each in wishes] if wish else []
    Random(233).shuffle(texts)
    ours = [shop.goals(index).instruction for index in range(0, len(texts), 7)]
    assert [instruction.partition(", and price lower")[0] for instruction in ours] == texts[::7]
    assert (shop.splits["test"], shop.splits["train"]) == (range(200), range(200, 4130))
    for index in (-1, len(texts)):
        with pytest.raises(TaskNotFound, match=f"webshop has no task {index}: valid are 0 to {len(texts) - 1}"):
            shop.goals(index)


def test_price_limits_of_made_goals_are_agentgyms(files):
    """Drawn product after product from seed 233, as its fork of WebShop does."""
    folder, products, _, marks = files
    shop, limits, rng = open_shop(str(folder / "shop")), {}, Random(233)
    for number, _ in enumerate(products):
        product = shop.products[number]
        if "instruction" in marks[product.asin]:
            above = [ten for ten in range(10, 1000, 10) if ten > product.price]
            limits[product.asin] = sorted(rng.sample(above[:4], 2))[1]
    for index in range(0, 4130, 11):
        goal = shop.goals(index)
        assert goal.cap == limits[goal.product.asin]
        assert goal.instruction.endswith(f", and price lower than {goal.cap:.2f} dollars")


def test_goals_of_people(files):
    folder, _, *_ = files
    env = make("webshop", data=folder / "shop", goals="human")
    assert dict(env.spec.splits) == {"train": range(1500, 1600), "validation": range(500, 1500), "test": range(500)}
    goals = [env.shop.goals(index) for index in range(1600)]
    assert {goal.instruction.partition(",")[0] for goal in goals} == {"i want this", "and that"}
    assert {goal.options for goal in goals} == {("black",), ()}
    assert not env.relabels
    with pytest.raises(NotImplementedError, match="webshop cannot tell which goals an episode reached"):
        env.achieved(Task("webshop", 0), [])


def test_verl_agents_goals_and_reward(files):
    """Goals 0 to 499 are its test goals; a purchase earns all or nothing."""
    folder, *_ = files
    env = make("webshop", data=folder / "shop", splits="verl_agent", rewarded="success")
    count = len(env.spec.splits["train"]) + 500
    assert dict(env.spec.splits) == {"train": range(500, count), "test": range(500)} and count > 4130
    assert env.goal(Task("webshop", 7)) == make("webshop", data=folder / "shop").goal(Task("webshop", 7))

    async def bought(rewarded, actions):
        shop = make("webshop", rewarded=rewarded)
        await shop.reset(Task("webshop", 0))
        return [await shop.step(action) for action in actions][-1].reward

    shop, oracle = make("webshop"), make("webshop").oracle(Task("webshop", 0))
    asyncio.run(shop.reset(Task("webshop", 0)))
    partly = [oracle[0], *(command for command in oracle if command.startswith("click[b0")), "click[buy now]"]
    assert asyncio.run(bought("success", oracle)) == 1
    assert 0 < asyncio.run(bought("score", partly)) < 1 and asyncio.run(bought("success", partly)) == 0


@pytest.mark.slow
def test_a_thousand_sessions_agree(files):
    """On instruction, price limit and the price of a range, which WebShop draws anew in every session."""
    folder, *_ = files

    async def start(index):
        env = make("webshop", data=folder / "shop")
        return (await env.reset(Task("webshop", index))).text, env.shop.goals(index).cap

    for index in (0, 4000):
        assert len({asyncio.run(start(index)) for _ in range(500)}) == 1
    again = official.open_folder(str(folder / "shop"), "synthetic")
    assert all(again.goals(index) == open_shop(str(folder / "shop")).goals(index) for index in range(0, 4130, 41))
    assert again.products[0].price == open_shop(str(folder / "shop")).products[0].price


def test_the_oracle_earns_1_where_it_knows_a_way(files):
    folder, *_ = files
    env, solved = make("webshop", data=folder / "shop"), 0

    async def play(task):
        await env.reset(task)
        return [await env.step(action) for action in env.oracle(task)][-1].reward

    for index in env.spec.splits["test"][:60]:
        try:
            solved += asyncio.run(play(Task("webshop", index))) == 1
        except OracleUnavailable:
            continue
    assert solved >= 50


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"goals": "own"}, "goals 'own' is unknown; choose synthetic or human"),
        ({"goals": "human"}, "give data=<folder>, too"),
        ({"splits": "own"}, "splits 'own' is unknown; choose agentgym or verl_agent"),
        ({"splits": "verl_agent"}, "splits=verl_agent are those of WebShop's synthetic goals; give data=<folder>, too"),
        ({"rewarded": "often"}, "rewarded 'often' is unknown; choose score or success"),
        ({"data": "/nowhere"}, "no shop in /nowhere; build it with: python -m agentgym_rl.envs.webshop"),
    ],
)
def test_wrong_options_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        make("webshop", **options)


def test_files_that_are_not_webshops_are_refused(files, tmp_path):
    folder, *_ = files
    with pytest.raises(ValueError, match="exists; remove it"):
        official.build(folder / "items_shuffle_1000.json", folder / "shop")
    with pytest.raises(ValueError, match=r"give WebShop's items_shuffle\.json"):
        official.build(folder / "items_ins_v2_1000.json", tmp_path / "shop")
    (tmp_path / "items_ins_v2.json").write_text("{}")
    for text, problem in {
        "{}": "expected a JSON list",
        '[{"asin": "B1"}': "product 1 is not one of WebShop's: KeyError",
        "[": "not a JSON list",
        "[]": "nothing to index",
    }.items():
        (tmp_path / "items_shuffle.json").write_text(text)
        with pytest.raises(ValueError, match=problem):
            official.build(tmp_path / "items_shuffle.json", tmp_path / "shop")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["items_ins_v2.json", "items_shuffle.json"], (
        "nothing is left"
    )
    (tmp_path / "items_shuffle.json").write_text((folder / "items_shuffle_1000.json").read_text())
    official.build(tmp_path / "items_shuffle.json", tmp_path / "shop")
    with pytest.raises(ValueError, match="has 0 synthetic goals, train begins with goal 200"):
        make("webshop", data=tmp_path / "shop")


def test_an_instruction_without_attributes_is_refused(files, tmp_path):
    _, _, rows, marks = files
    asin = rows[0]["asin"]
    (tmp_path / "items_shuffle.json").write_text(json.dumps(rows[:1]))
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({asin: marks[asin] | {"instruction_attributes": []}}))
    with pytest.raises(ValueError, match=r"product 1 is not one of WebShop's: .*asks for no attribute"):
        official.build(tmp_path / "items_shuffle.json", tmp_path / "shop")


def test_a_long_list_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(official, "CHUNK", 7)
    rows = [{"a": "]x, [" * n, "b": [n]} for n in range(9)]
    (tmp_path / "list.json").write_text(json.dumps(rows, indent=2))
    assert [entry for entry, _ in official.entries(tmp_path / "list.json")] == rows

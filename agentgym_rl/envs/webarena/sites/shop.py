"""The shop: products, reviews, a cart, orders and an account."""

from __future__ import annotations

from agentgym_rl.envs.webarena.sites import page as html
from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Html, Moved, Page, Request, Row

NAME = "One Stop Shop"
NAVIGATION = {"Home": "/", "Cart": "/cart", "Orders": "/orders", "Account": "/account"}
SORTS = {"name": "name", "price, lowest first": "price, name", "price, highest first": "price DESC, name"}
MOST = 9
"""Pieces of a product that are put into the cart at once."""
LISTED = 20
"""Products of a list, and orders of a page."""


def answer(request: Request) -> Answer:
    match (request.method, *request.path):
        case ("GET",):
            return _home(request)
        case ("GET", "search"):
            words = f"%{request.given.get('q', '')}%"
            found = _sorted(request, "name LIKE ? OR description LIKE ?", words, words)
            return _listed(f"Results for {request.given.get('q', '')}", request, found)
        case ("GET", "category", name):
            return _listed(name, request, _sorted(request, "category = ?", name))
        case ("GET", "product", number):
            return _product(request, request.one("SELECT * FROM products WHERE id = ?", html.key(number)))
        case ("POST", "product", number, "cart"):
            return _put(request, request.value("SELECT id FROM products WHERE id = ?", html.key(number)))
        case ("POST", "product", number, "reviews"):
            return _review(request, request.value("SELECT id FROM products WHERE id = ?", html.key(number)))
        case ("GET", "cart"):
            return _cart(request)
        case ("POST", "cart", number, "remove"):
            request.change("DELETE FROM cart WHERE user = ? AND product = ?", request.member, html.key(number))
            return Moved("/cart")
        case ("GET", "orders"):
            return _orders(request)
        case ("POST", "orders"):
            return _buy(request)
        case ("GET", "orders", number):
            return _order(request, _own_order(request, number))
        case ("POST", "orders", number, "cancel"):
            return _cancel(request, _own_order(request, number))
        case ("GET", "account"):
            return _account(request)
        case ("POST", "account", ("full_name" | "city") as column):
            text = request.text(column)
            request.change(f"UPDATE users SET {column} = ? WHERE site = 'shopping' AND name = ?", text, request.member)
            return Moved("/account")
    raise Failed(404, "There is no such page.")


def _home(request: Request) -> Page:
    names = request.rows("SELECT DISTINCT category FROM products ORDER BY category")
    return Page(
        "Home",
        (
            _search(),
            html.tag("h2", "Categories"),
            html.items([html.link(f"/category/{name}", name)] for (name,) in names),
        ),
    )


def _search() -> Html:
    return html.form("/search", "Search", html.field("Search products", "q"), method="get")


def _sorted(request: Request, where: str, *values: str) -> list[Row]:
    order = SORTS.get(request.given.get("sort", ""), "name")
    return request.rows(f"SELECT * FROM products WHERE {where} ORDER BY {order}", *values)


def _listed(title: str, request: Request, found: list[Row]) -> Page:
    sort = html.choice("Sort by", "sort", SORTS, request.given.get("sort"))
    if "q" in request.given:
        sort = Html(sort + html.tag("input", type="hidden", name="q", value=request.given["q"]))
    rows = ((html.link(f"/product/{row['id']}", row["name"]), html.dollars(row["price"])) for row in found[:LISTED])
    return Page(
        title,
        (
            _search(),
            html.form("", "Sort", sort, method="get"),
            html.tag("p", f"{len(found)} products"),
            html.table(("Name", "Price"), rows),
        ),
    )


def _product(request: Request, row: Row) -> Page:
    reviews = request.rows("SELECT * FROM reviews WHERE product = ? ORDER BY id DESC", row["id"])
    shown = html.facts({"Price": html.dollars(row["price"]), "In stock": row["stock"], "Category": row["category"]})
    put = html.form(
        f"/product/{row['id']}/cart", "Add to cart", html.choice("Quantity", "quantity", range(1, MOST + 1))
    )
    write = html.form(
        f"/product/{row['id']}/reviews",
        "Send review",
        html.choice("Stars", "stars", [f"{n} stars" for n in range(5, 0, -1)]),
        html.area("Review", "review"),
    )
    lines = ((one["author"], f"{one['stars']} of 5", one["text"]) for one in reviews)
    body = (
        html.tag("p", row["description"]),
        shown,
        put,
        html.tag("h2", "Reviews"),
        html.table(("Author", "Stars", "Text"), lines),
        write,
    )
    return Page(row["name"], body)


def _put(request: Request, product: int) -> Moved:
    request.change(
        "INSERT INTO cart VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET quantity = min(99, quantity + excluded.quantity)",
        request.member, product, request.number("quantity", MOST),
    )  # fmt: skip
    return Moved("/cart")


def _review(request: Request, product: int) -> Moved:
    request.change(
        "INSERT INTO reviews (product, author, stars, text) VALUES (?, ?, ?, ?)",
        product, request.member, request.number("stars", 5), request.text("review"),
    )  # fmt: skip
    return Moved(f"/product/{product}")


_LINES = "SELECT products.*, quantity FROM cart JOIN products ON products.id = product WHERE user = ? ORDER BY name"


def _cart(request: Request) -> Page:
    lines = request.rows(_LINES, request.member)
    if not lines:
        return Page("Cart", (html.tag("p", "Your cart is empty."),))
    rows = (
        (html.link(f"/product/{row['id']}", row["name"]), row["quantity"], html.dollars(row["price"]),
         html.form(f"/cart/{row['id']}/remove", f"Remove {row['name']}"))
        for row in lines
    )  # fmt: skip
    total = sum(row["price"] * row["quantity"] for row in lines)
    return Page(
        "Cart",
        (
            html.table(("Name", "Quantity", "Price", "Action"), rows),
            html.facts({"Total": html.dollars(total)}),
            html.form("/orders", "Place order"),
        ),
    )


def _buy(request: Request) -> Moved:
    lines = request.rows(_LINES, request.member)
    if not lines:
        raise Failed(400, "Your cart is empty.")
    city = request.value("SELECT city FROM users WHERE site = 'shopping' AND name = ?", request.member)
    order = request.change(
        "INSERT INTO orders (user, placed, status, city) VALUES (?, '2024-06-01', 'pending', ?)", request.member, city
    )
    for row in lines:
        request.change("INSERT INTO order_lines VALUES (?, ?, ?, ?)", order, row["id"], row["quantity"], row["price"])
    request.change("DELETE FROM cart WHERE user = ?", request.member)
    return Moved(f"/orders/{order}")


def _orders(request: Request) -> Page:
    page = html.key(request.given.get("page", "1"))
    found = request.rows("SELECT * FROM orders WHERE user = ? ORDER BY id DESC", request.member)
    shown = found[(page - 1) * LISTED : page * LISTED] if page else []
    rows = ((html.link(f"/orders/{row['id']}", f"Order {row['id']}"), row["placed"], row["status"]) for row in shown)
    pages = ([html.link(f"/orders?page={number}", f"Page {number}")] for number in range(1, 2 + len(found) // LISTED))
    return Page("Orders", (html.table(("Order", "Placed", "Status"), rows), html.items(pages)))


def _own_order(request: Request, number: str) -> Row:
    return request.one("SELECT * FROM orders WHERE id = ? AND user = ?", html.key(number), request.member)


def _order(request: Request, row: Row) -> Page:
    lines = request.rows(
        "SELECT name, quantity, order_lines.price FROM order_lines JOIN products ON id = product WHERE orders = ?",
        row["id"],
    )
    total = sum(price * quantity for _, quantity, price in lines)
    shown = html.facts(
        {"Placed": row["placed"], "Status": row["status"], "Ship to": row["city"], "Total": html.dollars(total)}
    )
    rows = ((name, quantity, html.dollars(price)) for name, quantity, price in lines)
    cancel = (html.form(f"/orders/{row['id']}/cancel", "Cancel order"),) if row["status"] == "pending" else ()
    return Page(f"Order {row['id']}", (shown, html.table(("Name", "Quantity", "Price"), rows), *cancel))


def _cancel(request: Request, row: Row) -> Moved:
    if row["status"] != "pending":
        raise Failed(400, "Only a pending order can be cancelled.")
    request.change("UPDATE orders SET status = 'cancelled' WHERE id = ?", row["id"])
    return Moved(f"/orders/{row['id']}")


def _account(request: Request) -> Page:
    row = request.one("SELECT * FROM users WHERE site = 'shopping' AND name = ?", request.member)
    return Page(
        "Account",
        (
            html.facts({"Full name": row["full_name"], "City": row["city"]}),
            html.form("/account/full_name", "Change name", html.field("New name", "full_name")),
            html.form("/account/city", "Change city", html.field("New city", "city")),
        ),
    )

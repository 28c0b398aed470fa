"""The shop: products, reviews, a cart, orders and an account."""

from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Moved, Page, Request, Row, key

NAME = "One Stop Shop"
NAVIGATION = {"Home": "/", "Cart": "/cart", "Orders": "/orders", "Account": "/account"}
SORTS = {"name": "name", "price, lowest first": "price, name", "price, highest first": "price DESC, name"}
MAX_PIECES = 9
"""Pieces of a product that are put into the cart at once."""
LISTED = 20
"""Products of a list, and orders of a page."""


def answer(request: Request) -> Answer:
    match (request.method, *request.path):
        case ("GET",):
            names = request.rows("SELECT DISTINCT category FROM products ORDER BY category")
            return Page("Home", "shop/home.html", {"categories": names})
        case ("GET", "search"):
            words = request.pattern("q")
            products = _sorted(request, "name LIKE ? OR description LIKE ?", words, words)
            return _listed(f"Results for {request.fields.get('q', '')}", request, products)
        case ("GET", "category", name):
            return _listed(name, request, _sorted(request, "category = ?", name))
        case ("GET", "product", number):
            return _product(request, request.one("SELECT * FROM products WHERE id = ?", key(number)))
        case ("POST", "product", number, "cart"):
            return _put(request, request.value("SELECT id FROM products WHERE id = ?", key(number)))
        case ("POST", "product", number, "reviews"):
            return _review(request, request.value("SELECT id FROM products WHERE id = ?", key(number)))
        case ("GET", "cart"):
            return _cart(request)
        case ("POST", "cart", number, "remove"):
            request.change("DELETE FROM cart WHERE user = ? AND product = ?", request.member, key(number))
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


def _sorted(request: Request, where: str, *values: str) -> list[Row]:
    order = SORTS.get(request.fields.get("sort", ""), "name")
    return request.rows(f"SELECT * FROM products WHERE {where} ORDER BY {order}", *values)


def _listed(title: str, request: Request, products: list[Row]) -> Page:
    values = {"products": products, "shown": LISTED, "sorts": SORTS, "fields": request.fields}
    return Page(title, "shop/list.html", values)


def _product(request: Request, product: Row) -> Page:
    reviews = request.rows("SELECT * FROM reviews WHERE product = ? ORDER BY id DESC", product["id"])
    return Page(product["name"], "shop/product.html", {"product": product, "reviews": reviews, "most": MAX_PIECES})


def _put(request: Request, product: int) -> Moved:
    request.change(
        "INSERT INTO cart VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET quantity = min(99, quantity + excluded.quantity)",
        request.member, product, request.number("quantity", MAX_PIECES),
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
    return Page("Cart", "shop/cart.html", {"lines": lines, "total": _total(lines)})


def _total(lines: list[Row]) -> int:
    return sum(line["price"] * line["quantity"] for line in lines)


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
    page = key(request.fields.get("page", "1"))
    orders = request.rows("SELECT * FROM orders WHERE user = ? ORDER BY id DESC", request.member)
    shown = orders[(page - 1) * LISTED : page * LISTED] if page else []
    return Page("Orders", "shop/orders.html", {"orders": shown, "pages": 1 + len(orders) // LISTED})


def _own_order(request: Request, number: str) -> Row:
    return request.one("SELECT * FROM orders WHERE id = ? AND user = ?", key(number), request.member)


def _order(request: Request, order: Row) -> Page:
    lines = request.rows(
        "SELECT name, quantity, order_lines.price FROM order_lines JOIN products ON id = product WHERE orders = ?",
        order["id"],
    )
    return Page(f"Order {order['id']}", "shop/order.html", {"order": order, "lines": lines, "total": _total(lines)})


def _cancel(request: Request, row: Row) -> Moved:
    if row["status"] != "pending":
        raise Failed(400, "Only a pending order can be cancelled.")
    request.change("UPDATE orders SET status = 'cancelled' WHERE id = ?", row["id"])
    return Moved(f"/orders/{row['id']}")


def _account(request: Request) -> Page:
    account = request.one("SELECT * FROM users WHERE site = 'shopping' AND name = ?", request.member)
    return Page("Account", "shop/account.html", {"account": account})

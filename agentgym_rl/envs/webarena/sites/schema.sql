-- The database behind the sites. Money is in cents; dates are texts such as 2024-05-03, and are never those of today.
CREATE TABLE users (site TEXT, name TEXT, password TEXT, full_name TEXT, city TEXT, PRIMARY KEY (site, name));

CREATE TABLE products (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE, category TEXT, price INTEGER, stock INTEGER, description TEXT
);
CREATE TABLE reviews (id INTEGER PRIMARY KEY, product INTEGER, author TEXT, stars INTEGER, text TEXT);
CREATE TABLE cart (user TEXT, product INTEGER, quantity INTEGER, PRIMARY KEY (user, product));
CREATE TABLE orders (id INTEGER PRIMARY KEY, user TEXT, placed TEXT, status TEXT, city TEXT);
CREATE TABLE order_lines (orders INTEGER, product INTEGER, quantity INTEGER, price INTEGER);

CREATE TABLE forums (name TEXT PRIMARY KEY, about TEXT);
CREATE TABLE posts (
    id INTEGER PRIMARY KEY, forum TEXT, author TEXT, title TEXT UNIQUE, body TEXT, votes INTEGER, posted TEXT
);
CREATE TABLE comments (id INTEGER PRIMARY KEY, post INTEGER, author TEXT, body TEXT);
CREATE TABLE voted (user TEXT, post INTEGER, PRIMARY KEY (user, post));
CREATE TABLE subscribed (user TEXT, forum TEXT, PRIMARY KEY (user, forum));

CREATE TABLE articles (
    id INTEGER PRIMARY KEY, title TEXT UNIQUE, region TEXT, population INTEGER, founded INTEGER, river TEXT, mayor TEXT,
    known_for TEXT, body TEXT
);

CREATE TABLE projects (name TEXT PRIMARY KEY, about TEXT, maintainer TEXT);
CREATE TABLE issues (
    id INTEGER PRIMARY KEY, project TEXT, title TEXT UNIQUE, body TEXT, author TEXT, assignee TEXT, label TEXT,
    state TEXT, opened TEXT
);
CREATE TABLE notes (id INTEGER PRIMARY KEY, issue INTEGER, author TEXT, body TEXT);

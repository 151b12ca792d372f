"""Synthetic items: events and members of a staff, some with missing fields."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Item = dict[str, str | None]
FIELDS = ("name", "price", "date", "place")
FIRST = ("Winter", "Open", "Silent", "Grand", "Little", "Northern", "Electric", "Old", "Midnight", "River", "Paper",
         "Second")  # fmt: skip
SECOND = ("Jazz", "Poetry", "Garden", "Film", "Chess", "Robot", "Tango", "Ceramics", "Choir", "Opera", "Bread",
          "Comics")  # fmt: skip
THIRD = ("Night", "Fair", "Workshop", "Festival", "Marathon", "Evening", "Club", "Market", "School", "Parade")
MATERIALS = ("Steel", "Glass", "Oak", "Linen", "Copper", "Clay", "Bamboo", "Cotton", "Marble", "Iron")
THINGS = ("Tea Pot", "Coffee Mug", "Serving Bowl", "Cutting Board", "Salt Mill", "Water Jug", "Desk Lamp",
          "Storage Jar", "Cup")  # fmt: skip
PLACES = ("Town Hall", "Old Harbour", "St. Anne's Church", "Museum of Glass", "City Library", "Pier 39", "Blue Barn",
          "North Park", "Café Milo", "The Dome", "Central Station", "Rose & Crown")  # fmt: skip
MONTHS = ("January", "March", "April", "June", "July", "September", "October", "December")
GIVEN = ("Ada", "Bea", "Carl", "Dora", "Emil", "Fay", "Gero", "Hana", "Ivo", "Jana", "Kai", "Lena")
FAMILY = ("Abel", "Brandt", "Costa", "Dahl", "Ek", "Fuchs", "Gallo", "Horn", "Ito", "Jung", "Klein", "Lund", "Mora",
          "Ode")  # fmt: skip
ROLES = ("Professor", "Senior Lecturer", "Dean", "Technician", "PhD student", "Visiting scholar", "Secretary",
         "Librarian")  # fmt: skip


def make_events(rng: Random, n: int) -> list[Item]:
    """Return events with distinct names; at least one has all fields."""

    def name() -> str:
        words = f"{rng.choice(FIRST)} {rng.choice(SECOND)} {rng.choice(THIRD)}"
        return words + rng.choice(("", "", f" {rng.randint(2, 40)}"))

    def event(name: str) -> Item:
        return {
            "name": name,
            "price": f"${rng.randint(3, 240)}.{rng.randint(0, 99):02d}",
            "date": f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(2019, 2027)}",
            "place": f"{rng.choice(PLACES)}" + rng.choice(("", f", Hall {rng.randint(1, 9)}")),
        }

    items = _make(rng, n, name, event, {"price": 0.1, "date": 0.05, "place": 0.15})
    if not any(all(item.values()) for item in items):
        items[0] = {field: value or "TBA" for field, value in items[0].items()}
    return items


def make_staff(rng: Random, n: int) -> list[Item]:
    """Return members of a staff with distinct names."""

    def name() -> str:
        return f"{rng.choice(GIVEN)} {rng.choice(FAMILY)}" + rng.choice(("", f" {rng.choice('ABCDE')}."))

    def person(name: str) -> Item:
        return {
            "name": name,
            "role": rng.choice(ROLES),
            "phone": f"555-{rng.randint(1000, 9999)}",
            "mail": f"{name.split()[0].lower()}{rng.randint(1, 99)}@uni.example",
        }

    return _make(rng, n, name, person, {"role": 0.1, "phone": 0.15, "mail": 0.1})


def make_products(rng: Random, n: int) -> list[Item]:
    """Return products with distinct names; at least one has all fields."""

    def name() -> str:
        words = [rng.choice(FIRST), rng.choice(MATERIALS), rng.choice(THINGS)]
        return " ".join(words[rng.randint(0, 1) :]) + rng.choice(
            ("", f" {rng.randint(2, 900)}", " with lid", ", set of 4")
        )

    def product(name: str) -> Item:
        return {
            "name": name,
            "price": f"${rng.randint(3, 240)}.{rng.randint(0, 99):02d}",
            "maker": f"{rng.choice(FAMILY)} {rng.choice(('Bros.', 'Home', 'Co.', 'Studio'))}",
            "rating": f"{rng.randint(1, 4)}.{rng.randint(0, 9)}",
        }

    items = _make(rng, n, name, product, {"price": 0.05, "maker": 0.15, "rating": 0.2})
    if not any(all(item.values()) for item in items):
        items[0] = product(str(items[0]["name"]))
    return items


def _make(
    rng: Random, n: int, name: Callable[[], str], item_of: Callable[[str], Item], missing: dict[str, float]
) -> list[Item]:
    """Return items with n distinct names, in which fields are missing at given rates."""
    names: dict[str, None] = {}
    while len(names) < n:
        names[name()] = None
    items = []
    for distinct in names:
        item = item_of(distinct)
        items.append(item | {field: None for field, rate in missing.items() if rng.random() < rate})
    return items

"""Features of a ticket: hashed words, and what the values of a record amount to."""

import datetime
import re
import zlib

BUCKETS = 1 << 16

# The limits between which amounts and days are told apart. Exact values would be noise: every seed draws others.
AMOUNTS = (0, 10, 25, 50, 100, 200, 400)
DAYS = (-365, -60, -30, -21, -14, -10, -7, -5, -3, -2, -1, 0, 1, 2, 3, 5, 7, 14)

FIELD = re.compile(r"^\s*([^:]{1,30}): (.+)$")
DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?")
AMOUNT = re.compile(r"(?:\$|usd ?)(\d+(?:,\d{3})*(?:\.\d+)?)|(\d+(?:,\d{3})*(?:\.\d+)?) ?(?:usd|dollars)")
WORD = re.compile(r"[a-zà-ÿ0-9]+(?:['’-][a-zà-ÿ0-9]+)*|[!?]+")


def features(observation):
    """Returns the numbers of an observation's features, in [0, BUCKETS), each once and in order."""
    now = datetime.date.fromisoformat(observation["now"][:10])
    found = set()
    for text in (observation["subject"], observation["description"]):
        found.update(of_text(text))
    for attachment in observation["attachments"]:
        found.update(of_record(attachment["content"], now))
    return sorted({zlib.crc32(f.encode()) % BUCKETS for f in found})


def of_text(text):
    """Yields words, the beginnings of words, and pairs of neighbours."""
    words = [normal(w) for w in WORD.findall(AMOUNT.sub(amount_word, DATE.sub(" date ", text.lower())))]
    yield from words
    yield from (word[:5] + "*" for word in words if len(word) > 5)
    yield from (a + " " + b for a, b in zip(words, words[1:], strict=False))


def normal(word):
    """Replaces what a seed draws: ids and larger numbers."""
    if not any(c.isdigit() for c in word):
        return word
    return word if word.isdigit() and len(word) <= 2 else "#"


def amount_word(match):
    return f" usd{sum(dollars(match) > limit for limit in AMOUNTS)} "


def dollars(match):
    return float((match[1] or match[2]).replace(",", ""))


def of_record(text, now):
    """Yields the fields of a record with the names of their sections, the order of its days, and the words of other lines."""
    section, days = "", {}
    for line in text.splitlines():
        field = FIELD.match(line)
        if field is None:
            section = line.strip()
            yield from of_text(line)
            continue
        name, value = f"{section}.{field[1]}", field[2].lower()
        yield name
        if date := DATE.match(value):
            days[name] = (datetime.date(*map(int, date.groups())) - now).days
            yield from (f"{name} after {limit}" for limit in DAYS if days[name] > limit)
        elif amount := AMOUNT.match(value):
            yield from (f"{name} above {limit}" for limit in AMOUNTS if dollars(amount) > limit)
        else:
            yield name + "=" + " ".join(normal(w) for w in WORD.findall(value))
    yield from (f"{a} before {b}" for a in days for b in days if days[a] < days[b])

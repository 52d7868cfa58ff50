"""A payment that is made once, however often it is asked for. Needs lock.py beside it."""

from lock import Lock

CREATE = "CREATE TABLE payment (number text PRIMARY KEY, reference text NOT NULL)"
FIND = "SELECT reference FROM payment WHERE number = :number"
KEEP = "INSERT INTO payment VALUES (:number, :reference) ON CONFLICT (number) DO NOTHING"


def pay(proxies, db, charge, number, amount):
    """Pays the order of that number and returns the provider's reference."""
    with Lock(proxies, f"pay:{number}", wait=10_000) as lock:
        found = db.execute(FIND, {"number": number}).fetchone()
        if found:
            return found[0]
        lock.check()
        # A process may end here, or be late. The provider knows the order by its key, so what
        # comes a second time changes nothing.
        reference = charge(amount, idempotency_key=f"order-{number}")
        with db:
            db.execute(KEEP, {"number": number, "reference": reference})
        return reference

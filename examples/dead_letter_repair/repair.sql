-- Orders without an amount cost what the price list says. The columns are those that the sink takes.
SELECT
    _receipt,
    origin.queue AS topic,
    key,
    to_json(struct(order.id, order.customer, 10.0D AS amount)) AS value
FROM (
    SELECT *, from_json(CAST(value AS STRING), 'id BIGINT, customer BIGINT, amount DOUBLE') AS order
    FROM letters
)
WHERE origin.reason = 'rejected' AND origin.error = 'no amount' AND order.id IS NOT NULL

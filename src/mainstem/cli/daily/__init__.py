"""Commands of every day without a noun: produce, consume, request, status, top, bench."""

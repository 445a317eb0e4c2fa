"""Bytes <-> values of AMQP 0-9-1.

field_table   tables and arrays of typed values
properties    the property list of a message
methods       every method, from one table
framing       frames, and the hot methods by hand
"""

# ledger_engine.py is compiled as it is: its calls are short, and the bytecode between them is what costs.

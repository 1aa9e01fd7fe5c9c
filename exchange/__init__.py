"""Models of other toolkits become runs, and runs become models of other toolkits. convert.py is the door."""

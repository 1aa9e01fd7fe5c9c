"""Recipes: trainings and translations that build on each other, in one folder."""

"""Scores, confidences and explanations of predictions."""

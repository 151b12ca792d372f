"""What experiments share: cells, data, figures, reports."""

"""What every page is made of: templates, the style sheet and the chart library."""

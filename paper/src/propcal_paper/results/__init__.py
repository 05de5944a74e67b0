"""What a store of trials shows: tables, figures, claims, and the pages with them."""

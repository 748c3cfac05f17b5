"""typer commands; heavy imports only inside them."""

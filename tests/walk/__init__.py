"""Follow one request of each way through the product, and keep the number of its calls from growing unnoticed."""

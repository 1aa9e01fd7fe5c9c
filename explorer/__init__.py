"""Looking inside: every head of every layer as records (capture), what closing a head does (gates, effects), what heads
do over a corpus (roles), and the page and figures that show them."""

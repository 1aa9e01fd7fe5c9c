"""Look inside a trained model: record every head of every layer (capture), close heads (gates, head_ablation), describe
what heads do over a corpus (roles, analysis), and show it all on a page or in figures."""

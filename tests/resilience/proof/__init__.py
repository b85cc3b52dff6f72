"""The model of the protocol in `proof/`, searched exhaustively by SPIN."""

elementclass A { $x, K $y | input -> Queue($x) -> output || ... }
a :: A(1, K 2) -> [0, 1-2] Discard;
require(library this); define($z 3)
// c
Idle => (Null, Null) -> [$z] Discard
// An Ethernet switch of three network interfaces.
//
//   linerate run examples/switch.click A=eth1 B=eth2 C=eth3
//
// needs root. The interfaces should have no addresses of their own: the kernel
// would answer, too. Nothing between bridges (spanning tree, LLDP, pause
// frames) passes. `linerate call` with --control shows the hosts: s.table.

define($A eth1, $B eth2, $C eth3);

s :: EtherSwitch;

FromDevice($A, PROMISC true) -> BPDUGuard -> [0] s [0] -> Queue -> ToDevice($A);
FromDevice($B, PROMISC true) -> BPDUGuard -> [1] s [1] -> Queue -> ToDevice($B);
FromDevice($C, PROMISC true) -> BPDUGuard -> [2] s [2] -> Queue -> ToDevice($C);

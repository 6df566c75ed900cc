//! Examples beside the kernel doing the same job: equal packets go to either in the same topology,
//! and their output is compared packet by packet.

mod exchange;
mod expiry;
mod expiry_router;
mod firewall;
mod four;
mod nat;
mod routers;
mod six;
mod switch;

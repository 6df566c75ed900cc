//! Elements that bring packets in and out of the graph.
#![forbid(unsafe_code)]

use linerate_graph::{Class, Context};
use linerate_port::LeasedPort;

mod af_xdp;
mod device;
mod device_info;
mod dpdk;
mod filter;
mod follow_kernel;
mod from_port;
mod kernel_module;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod name_tests;
mod named_ports;
mod names;
mod netmap;
mod port_users;
mod rx_queue;
mod socket;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod to_port;
mod tunnel;
mod tx_queue;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &af_xdp::FROM,
    &af_xdp::TO,
    &dpdk::FROM,
    &dpdk::INFO,
    &dpdk::TO,
    &follow_kernel::CLASS,
    &from_port::CLASS,
    &from_port::DEVICE,
    &kernel_module::POLL_DEVICE,
    &kernel_module::TO_HOST_SNIFFERS,
    &device_info::CLASS,
    &netmap::FROM,
    &netmap::INFO,
    &netmap::TO,
    &socket::FROM_RAW_SOCKET,
    &socket::FROM_SOCKET,
    &socket::MCAST_SOCKET,
    &socket::RAW_SOCKET,
    &socket::SOCKET,
    &socket::TO_RAW_SOCKET,
    &socket::TO_SOCKET,
    &to_port::CLASS,
    &to_port::DEVICE,
    &tunnel::FROM_HOST,
    &tunnel::KERNEL_TAP,
    &tunnel::KERNEL_TUN,
    &tunnel::TO_HOST,
];

/// The name of the family in the reference.
const FAMILY: &str = "devices";

/// Why ports drop packets.
const DROPS: &[&str] = <linerate_port::DropReason as linerate_graph::DropReason>::REASONS;

/// The timer that looks after a port's counters and whether it is still there.
const TICK: u32 = 0;
/// The timer that keeps a worker from sleeping long while packets are on their
/// way out.
const FLUSH: u32 = 1;
/// Its interval, in ns.
const TICK_EVERY: u64 = 500_000_000;

/// Sets the timer `TICK` again. Not in simulated time, which would run for
/// nothing else.
fn keep_ticking(cx: &mut Context, timer: u32) {
    if !cx.clock.is_simulated() {
        let at = cx.steady() + TICK_EVERY;
        cx.set_timer(timer, at);
    }
}

/// Returns the mode a port was opened in, as text.
fn mode_text(port: Option<&LeasedPort>) -> String {
    port.and_then(LeasedPort::info).map_or_else(|| "not open".into(), |info| info.mode)
}

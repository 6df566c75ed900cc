//! Properties of an interface that its driver reports, asked through `SIOCETHTOOL`.
//!
//! Reads only. Every answer is optional: virtual interfaces leave most
//! questions open. Source: `linux/ethtool.h`; structures are handled as the
//! arrays of 32-bit words they are.

use std::{io, os::fd::OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::Serialize;

use super::request::Request;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GRXCSUM: u32 = 0x14;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GSG: u32 = 0x18;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;

/// Bits of `ETHTOOL_GFLAGS`.
const FLAG_TRANSMIT_VLAN: u32 = 1 << 7;
const FLAG_RECEIVE_VLAN: u32 = 1 << 8;
const FLAG_LRO: u32 = 1 << 15;
const FLAG_NTUPLE: u32 = 1 << 27;
const FLAG_RECEIVE_HASH: u32 = 1 << 28;

/// Words of `struct ethtool_link_settings` without the link mode masks.
const LINK_SETTINGS: usize = 12;
/// Words of one link mode mask at most: the kernel counts them in an `i8`.
const LINK_MODE_WORDS: usize = 127;
/// Words of the longest structure we ask for.
const LONGEST: usize = LINK_SETTINGS + 3 * LINK_MODE_WORDS;

/// The driver behind an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverInfo {
    /// Its name.
    pub name: String,
    /// Its version: for most, the kernel's.
    pub version: String,
    /// The card's firmware, or nothing.
    pub firmware: String,
    /// Bus address of the card, such as a PCI address, or nothing.
    pub bus: String,
}

/// Queues in use, and how many there could be (`ethtool -l`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Channels {
    /// Queues that receive, those that also transmit included.
    pub receive: u32,
    /// Queues that transmit, those that also receive included.
    pub transmit: u32,
    /// Of both, those that do both.
    pub combined: u32,
    /// Most queues that can receive.
    pub receive_limit: u32,
    /// Most queues that can transmit.
    pub transmit_limit: u32,
}

/// Descriptors of a queue's rings, and how many there could be (`ethtool -g`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Descriptors {
    /// Of a receive ring.
    pub receive: u32,
    /// Of a transmit ring.
    pub transmit: u32,
    /// Of a receive ring at most.
    pub receive_limit: u32,
    /// Of a transmit ring at most.
    pub transmit_limit: u32,
}

/// The offloads that change the packets a packet program sees (`ethtool -k`): merged segments,
/// checksums left to hardware, tags taken out of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Offloads {
    /// Checksums of received packets are verified before we see them.
    pub receive_checksum: bool,
    /// Checksums of sent packets may be left for the interface to fill in.
    pub transmit_checksum: bool,
    /// A packet to send may lie in several pieces.
    pub scatter_gather: bool,
    /// TCP segments longer than the MTU are cut by the interface.
    pub tso: bool,
    /// Long segments are cut by the kernel, just before the driver.
    pub gso: bool,
    /// Received segments of a flow are merged by the kernel.
    pub gro: bool,
    /// Received segments are merged by the interface, which loses their borders.
    pub lro: bool,
    /// VLAN tags of received frames are put aside.
    pub receive_vlan: bool,
    /// VLAN tags of sent frames are put in.
    pub transmit_vlan: bool,
    /// Flows can be steered to queues by rules.
    pub ntuple: bool,
    /// Received packets come with a flow hash.
    pub receive_hash: bool,
}

/// A socket to ask through; it asks about the namespace it was opened in.
#[derive(Debug)]
pub(super) struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    pub(super) fn open() -> io::Result<Ethtool> {
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Ethtool { socket })
    }

    pub(super) fn driver(&self, interface: &str) -> Option<DriverInfo> {
        let words = self.ask(interface, ETHTOOL_GDRVINFO, &[])?;
        let field = |start: usize| {
            let bytes: Vec<u8> =
                words[start..start + 8].iter().flat_map(|word| word.to_ne_bytes()).collect();
            super::netlink::text(&bytes).trim().to_owned()
        };
        // Four strings of 32 bytes after the command: driver, version,
        // firmware, bus.
        let info =
            DriverInfo { name: field(1), version: field(9), firmware: field(17), bus: field(25) };
        (!info.name.is_empty()).then_some(info)
    }

    pub(super) fn channels(&self, interface: &str) -> Option<Channels> {
        let words = self.ask(interface, ETHTOOL_GCHANNELS, &[])?;
        let [_, max_rx, max_tx, _, max_combined, rx, tx, _, combined] = words[..9] else {
            return None;
        };
        Some(Channels {
            receive: rx.saturating_add(combined),
            transmit: tx.saturating_add(combined),
            combined,
            receive_limit: max_rx.max(max_combined),
            transmit_limit: max_tx.max(max_combined),
        })
    }

    pub(super) fn descriptors(&self, interface: &str) -> Option<Descriptors> {
        let words = self.ask(interface, ETHTOOL_GRINGPARAM, &[])?;
        let [_, receive_limit, _, _, transmit_limit, receive, _, _, transmit] = words[..9] else {
            return None;
        };
        Some(Descriptors { receive, transmit, receive_limit, transmit_limit })
    }

    /// Link speed in bit/s; `None` where the driver does not know.
    pub(super) fn speed(&self, interface: &str) -> Option<u64> {
        // The kernel answers a request without room for the link modes with
        // how many words they take, negated, and nothing else.
        let words = self.ask(interface, ETHTOOL_GLINKSETTINGS, &[])?;
        let mode_words = mask_words(&words).checked_neg().filter(|&words| words > 0)?;
        let mut settings = [0; LINK_SETTINGS - 1];
        settings[2] = word_with_mask_words(mode_words);
        let words = self.ask(interface, ETHTOOL_GLINKSETTINGS, &settings)?;
        match words[1] {
            0 | u32::MAX => None,
            megabits => Some(u64::from(megabits) * 1_000_000),
        }
    }

    pub(super) fn offloads(&self, interface: &str) -> Option<Offloads> {
        let value = |command| self.ask(interface, command, &[]).map(|words| words[1]);
        let flags = value(ETHTOOL_GFLAGS)?;
        Some(Offloads {
            receive_checksum: value(ETHTOOL_GRXCSUM)? != 0,
            transmit_checksum: value(ETHTOOL_GTXCSUM)? != 0,
            scatter_gather: value(ETHTOOL_GSG)? != 0,
            tso: value(ETHTOOL_GTSO)? != 0,
            gso: value(ETHTOOL_GGSO)? != 0,
            gro: value(ETHTOOL_GGRO)? != 0,
            lro: flags & FLAG_LRO != 0,
            receive_vlan: flags & FLAG_RECEIVE_VLAN != 0,
            transmit_vlan: flags & FLAG_TRANSMIT_VLAN != 0,
            ntuple: flags & FLAG_NTUPLE != 0,
            receive_hash: flags & FLAG_RECEIVE_HASH != 0,
        })
    }

    /// Asks one of the questions above; `None` if the driver has no answer.
    fn ask(&self, interface: &str, command: u32, arguments: &[u32]) -> Option<[u32; LONGEST]> {
        let mut words = [0; LONGEST];
        words[0] = command;
        words[1..=arguments.len()].copy_from_slice(arguments);
        let mut request = Request::named(interface).ok()?.with_data(&mut words);
        // SAFETY: its address is of `LONGEST` writable words. The commands above
        // all get: for each the kernel writes its fixed structure, at most 196
        // bytes, and for `ETHTOOL_GLINKSETTINGS` also three masks of the `i8`
        // number of words passed in, which `LONGEST` has room for.
        unsafe { request.send(&self.socket, SIOCETHTOOL) }.ok()?;
        Some(words)
    }
}

// `struct ethtool_drvinfo` is the longest of the fixed structures.
const _: () = assert!(LONGEST * 4 >= 196);

/// `link_mode_masks_nwords`: byte 15 of `struct ethtool_link_settings`, after
/// command, speed and seven single bytes: the last of word 3.
fn mask_words(words: &[u32]) -> i8 {
    i8::from_ne_bytes([words[3].to_ne_bytes()[3]])
}

/// The word that holds it, with the three bytes beside it zero.
fn word_with_mask_words(mask_words: i8) -> u32 {
    u32::from_ne_bytes([0, 0, 0, mask_words.to_ne_bytes()[0]])
}

//! Receiving: the part common to `pcap_dispatch`, `pcap_loop`, `pcap_next` and `pcap_next_ex`.

use std::{
    ffi::c_int,
    io,
    os::fd::RawFd,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

use linerate_filter::Instruction;
use linerate_linux::interface;
use linerate_memory::{Arena, Frame, Meta};
use linerate_port::{Interest, Wake};

use super::{Handle, Interrupt, ReceiveSide, Settings, selectable::Selectable};
use crate::{
    abi::{DIRECTION_BOTH, DIRECTION_OUT, DLT_EN10MB, PacketHeader, TSTAMP_NANO},
    bpf::{Metadata, Program, VlanTag},
    inject::{Anchor, Boundary, flush_held},
    names::Target,
    source::{OpenedSource, Sleep},
};

/// Packets that are taken from the port at a time.
const BURST: usize = 256;
/// Limit of a call that wants all there is: packets come while they are read, so there is an end to
/// it.
const ALL: usize = 1 << 16;
/// `ARPHRD_ETHER` and `ARPHRD_NONE` of `linux/if_arp.h`: an interface of Ethernet, and one without a link's
/// header.
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_NONE: u16 = 0xfffe;
/// Interval of looks whether the interface is still there, and at the kernel's counts.
pub(super) const REFRESH: Duration = Duration::from_secs(1);

/// An open port, as it is read.
pub(crate) struct Capture {
    receive_side: Arc<ReceiveSide>,
    arena: Arena,
    /// The burst, and how many of it were looked at. The packet given out last lies in it.
    frame: Frame,
    next: usize,
    /// When it came, in nanoseconds since the epoch.
    burst_time: u64,
    /// `None` lets all pass.
    filter: Option<Program>,
    /// The metadata that all packets have in common.
    metadata: Metadata,
    /// Whether a filter is given frames as they are: those of a file, which libpcap would not have the
    /// kernel look at.
    pub(crate) is_file: bool,
    /// A frame without its tag.
    untagged: Vec<u8>,
    pub(crate) direction: c_int,
    settings: Settings,
    stamps: bool,
    pub(crate) directions: bool,
    pub(crate) datalink: c_int,
    /// When the source was refreshed, as `burst_time`.
    refreshed: u64,
    selectable: Option<Selectable>,
    /// The header that `pcap_next_ex` points to.
    pub(crate) header: PacketHeader,
}

/// Outcome of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// So many packets were given out: 0 when none came in time.
    Packets(usize),
    /// Nothing will come any more.
    Ended,
    /// The loop was broken.
    Broken,
    /// It failed; the handle has the error text.
    Failed,
}

impl Capture {
    /// A capture of an opened target.
    pub(crate) fn new(
        opened: OpenedSource,
        settings: Settings,
        datalink: c_int,
        target: &Target,
    ) -> Capture {
        // libpcap counts an interface's drops for programs that want all of its packets.
        let interface = target.interface().filter(|_| settings.promiscuous);
        let index = target.interface().and_then(|name| interface::find(name).ok());
        let hardware = if datalink == DLT_EN10MB { ARPHRD_ETHER } else { ARPHRD_NONE };
        Capture {
            receive_side: Arc::new(ReceiveSide::new(opened.source, interface)),
            arena: opened.arena,
            frame: Frame::new(BURST),
            next: 0,
            burst_time: 0,
            filter: None,
            metadata: Metadata {
                interface: index.map_or(0, |link| link.index),
                hardware,
                ..Metadata::default()
            },
            // A file has frames as they were.
            is_file: target.is_a_file() || datalink != DLT_EN10MB,
            untagged: Vec::new(),
            direction: DIRECTION_BOTH,
            settings,
            stamps: opened.stamps,
            directions: opened.directions,
            datalink,
            refreshed: now(),
            selectable: None,
            header: PacketHeader {
                time: libc::timeval { tv_sec: 0, tv_usec: 0 },
                captured: 0,
                length: 0,
            },
        }
    }

    pub(crate) fn receive_side(&self) -> &Arc<ReceiveSide> {
        &self.receive_side
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets a filter, in both of its forms.
    pub(crate) fn set_filter(&mut self, program: Program, instructions: &[Instruction]) {
        self.filter = Some(program);
        self.receive_side.source.take().leave_out(instructions);
    }

    /// Bytes of packets there is room for.
    pub(crate) fn buffer_size(&self) -> usize {
        self.arena.size()
    }

    /// The descriptor to wait by; from now on it is kept up to date.
    pub(crate) fn selectable(&mut self, handle: &Handle) -> io::Result<RawFd> {
        if let Some(selectable) = &self.selectable {
            return Ok(selectable.fd());
        }
        let selectable = self.selectable.insert(Selectable::new(handle.interrupt.event())?);
        let fd = selectable.fd();
        self.arm(&handle.interrupt);
        Ok(fd)
    }

    /// Arms the descriptor for a program that waits by itself.
    fn arm(&mut self, interrupt: &Interrupt) {
        let Some(selectable) = &mut self.selectable else { return };
        interrupt.settle();
        if self.next < self.frame.len() {
            return selectable.set();
        }
        match self.receive_side.source.take().wakes() {
            Ok(wakes) => selectable.arm(&wakes),
            // The next read reports it.
            Err(_) => selectable.set(),
        }
    }

    /// Gives back the received packets.
    pub(crate) fn close(&mut self) {
        self.receive_side.source.take().close(&mut self.frame);
    }

    /// Reads up to `limit` packets, or all there are, and waits for the first if that is allowed.
    ///
    /// # Safety
    ///
    /// `this` is the handle's, and there are no references into it. `each` may call the handle, but
    /// not close it.
    pub(crate) unsafe fn read(
        this: *mut Capture,
        handle: &Handle,
        limit: Option<usize>,
        mut each: impl FnMut(&PacketHeader, *const u8),
    ) -> Outcome {
        let anchor = Anchor::default();
        let boundary = Boundary::begin(&anchor, || handle.ends_waiting());
        // SAFETY: as the caller says.
        let outcome = unsafe { Capture::read_within(this, handle, limit, &anchor, &mut each) };
        drop(boundary);
        // SAFETY: no callback is running any more.
        unsafe { (*this).arm(&handle.interrupt) };
        outcome
    }

    /// # Safety
    ///
    /// As for [`Capture::read`].
    unsafe fn read_within(
        this: *mut Capture,
        handle: &Handle,
        limit: Option<usize>,
        anchor: &Anchor,
        each: &mut impl FnMut(&PacketHeader, *const u8),
    ) -> Outcome {
        let limit = limit.unwrap_or(ALL);
        let mut given = 0;
        let mut until = None;
        let mut bursts = 0;
        loop {
            loop {
                if handle.interrupt.take() {
                    return Outcome::Broken;
                }
                if given == limit {
                    return Outcome::Packets(given);
                }
                // SAFETY: this reference ends here. The packet pointed to stays until the burst is
                // given back, which is done below and in `close` alone.
                let Some(found) = (unsafe { (*this).find() }) else { break };
                given += 1;
                anchor.say_last(given == limit);
                each(&found.header, found.bytes);
            }
            // SAFETY: no callback is running.
            let capture = unsafe { &mut *this };
            flush_held(|| handle.ends_waiting());
            match capture.fill() {
                Ok(0) => {}
                Ok(_) => {
                    bursts += 1;
                    // Packets that are not wanted do not end a call, nor do they keep one from its end.
                    let waits = !handle.is_nonblocking();
                    let is_enough = bursts > ALL / BURST && (given > 0 || !waits);
                    if is_enough || waits && bursts > 1 && capture.is_late(&mut until) {
                        return Outcome::Packets(given);
                    }
                    continue;
                }
                Err(words) => {
                    handle.error.set(&words);
                    return Outcome::Failed;
                }
            }
            if given > 0 {
                return Outcome::Packets(given);
            }
            if capture.receive_side.source.take().ended() {
                return Outcome::Ended;
            }
            // A time-out below zero is none, as libpcap hands it to poll(2).
            if handle.is_nonblocking() || capture.settings.timeout < 0 {
                return Outcome::Packets(0);
            }
            match capture.wait(handle, &mut until) {
                Ok(true) => {}
                Ok(false) => return Outcome::Packets(0),
                Err(words) => {
                    handle.error.set(&words);
                    return Outcome::Failed;
                }
            }
        }
    }

    /// The next packet of the burst that is wanted.
    #[inline]
    fn find(&mut self) -> Option<MatchedPacket> {
        while let Some(slot) = self.frame.slots().get(self.next) {
            self.next += 1;
            let bytes = self.arena.packet(slot);
            // Metadata is meaningless where the port does not write it.
            let meta = self.arena.meta(slot);
            let length = bytes.len() as u32 + if self.stamps { meta.missing() } else { 0 };
            // Packets of other ports came in.
            let kind = if self.directions { meta.packet_type } else { Meta::TO_HOST };
            if self.direction != DIRECTION_BOTH && self.directions {
                let outgoing = kind == Meta::OUTGOING;
                if outgoing != (self.direction == DIRECTION_OUT) {
                    continue;
                }
            }
            let tag = if self.is_file { None } else { outer_tag(bytes) };
            let protocol = self.settings.protocol;
            if protocol != 0 && !is_of(bytes, tag.is_some(), protocol) {
                continue;
            }
            let mut shown = (bytes.len() as u32, length);
            if let Some(filter) = &self.filter {
                let metadata = Metadata { packet_type: kind, tag, ..self.metadata };
                let wanted = if tag.is_some() {
                    self.untagged.clear();
                    self.untagged.extend_from_slice(&bytes[..TYPE]);
                    self.untagged.extend_from_slice(&bytes[TYPE + TAG..]);
                    filter.accepts_with(&self.untagged, length - TAG as u32, &metadata)
                } else {
                    filter.accepts_with(bytes, length, &metadata)
                };
                if wanted == 0 {
                    continue;
                }
                shown = cut(bytes.len(), length, wanted, tag.is_some());
            }
            let noted = if self.stamps { meta.timestamp } else { 0 };
            let time = if noted != 0 { noted } else { self.burst_time };
            let received = &self.receive_side.received;
            received.store(received.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            let header = PacketHeader {
                time: self.time_of(time),
                captured: shown.0.min(self.settings.snapshot()),
                length: shown.1,
            };
            return Some(MatchedPacket { header, bytes: bytes.as_ptr() });
        }
        None
    }

    fn time_of(&self, nanoseconds: u64) -> libc::timeval {
        let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        let rest = if self.settings.precision == TSTAMP_NANO { rest } else { rest / 1000 };
        libc::timeval { tv_sec: seconds as i64, tv_usec: rest as i64 }
    }

    /// Takes the next burst: how many packets it has.
    #[inline]
    fn fill(&mut self) -> Result<usize, String> {
        self.next = 0;
        let mut source = self.receive_side.source.take();
        let received = source.receive(&mut self.frame);
        if *received.as_ref().unwrap_or(&0) > 0 {
            // One look at the clock for all of them.
            self.burst_time = now();
            if is_due(&mut self.refreshed, self.burst_time) {
                source.refresh();
            }
        }
        received
    }

    /// Time at which reading that finds nothing has to end, counted from the first call; `None`
    /// when it does not.
    fn end(&self, until: &mut Option<Instant>) -> Option<Instant> {
        let timeout = u64::try_from(self.settings.timeout).ok().filter(|timeout| *timeout > 0)?;
        Some(*until.get_or_insert_with(|| Instant::now() + Duration::from_millis(timeout)))
    }

    /// Returns true if the time of `end` has come.
    fn is_late(&self, until: &mut Option<Instant>) -> bool {
        self.end(until).is_some_and(|end| Instant::now() >= end)
    }

    /// Sleeps until there may be packets, or the loop is broken: `false` when the time is over.
    fn wait(&mut self, handle: &Handle, until: &mut Option<Instant>) -> Result<bool, String> {
        let end = self.end(until);
        let now = Instant::now();
        let left = end.map_or(REFRESH, |end| end.saturating_duration_since(now));
        if left.is_zero() {
            return Ok(false);
        }
        handle.interrupt.settle();
        let mut source = self.receive_side.source.take();
        if is_due(&mut self.refreshed, self::now()) {
            source.refresh();
        }
        let mut wakes = source.wakes()?;
        wakes.push(Wake::Fd(handle.interrupt.event(), Interest::Read));
        let sleep = Sleep::until(&wakes);
        // Others may ask for statistics meanwhile.
        drop(wakes);
        drop(source);
        // SAFETY: the port and the interrupt are this handle's, which is not closed meanwhile.
        unsafe { sleep.sleep(left.min(REFRESH)) }.map_err(|error| error.to_string())?;
        Ok(true)
    }
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// Returns true if the source is to be refreshed, which is noted. A clock that is set back makes it
/// due, too.
fn is_due(refreshed: &mut u64, now: u64) -> bool {
    let due = now.wrapping_sub(*refreshed) >= REFRESH.as_nanos() as u64;
    if due {
        *refreshed = now;
    }
    due
}

/// A packet that is wanted.
struct MatchedPacket {
    header: PacketHeader,
    bytes: *const u8,
}

/// Offset of a frame's type, and length of a tag that stands there.
const TYPE: usize = 12;
const TAG: usize = 4;
/// The types of tags that Linux takes out.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// The tag that Linux takes out of a frame that it receives, before a filter looks at it. Something is
/// behind it.
#[inline]
fn outer_tag(frame: &[u8]) -> Option<VlanTag> {
    let [a, b, c, d, ..] = *frame.get(TYPE..)?.first_chunk::<{ TAG + 2 }>()?;
    let protocol = u16::from_be_bytes([a, b]);
    let control = u16::from_be_bytes([c, d]);
    TAGS.contains(&protocol).then_some(VlanTag { protocol, control })
}

/// The captured and the original length of a packet of which a filter wants so many bytes. libpcap puts a tag
/// that was taken out back where there is room, and cuts at the handle's snapshot length then.
#[inline]
fn cut(packet: usize, length: u32, wanted: u32, has_tag: bool) -> (u32, u32) {
    let (packet, tag) = (packet as u32, TAG as u32);
    match has_tag {
        false => (packet.min(wanted), length),
        true if wanted < TYPE as u32 => (wanted, length - tag),
        true => ((packet - tag).min(wanted) + tag, length),
    }
}

/// Returns true if a frame is of that type of Ethernet, behind a tag that was taken out.
fn is_of(packet: &[u8], has_tag: bool, protocol: u16) -> bool {
    let at = if has_tag { TYPE + TAG } else { TYPE };
    packet.get(at..at + 2) == Some(&protocol.to_be_bytes())
}

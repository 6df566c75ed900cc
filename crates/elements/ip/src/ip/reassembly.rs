//! Reassembly of one packet.

use std::net::Ipv4Addr;

use linerate_memory::Meta;

use linerate_element_support::ip::{DESTINATION, IDENT, PROTOCOL, SOURCE, get_four, get16};

/// Fields shared by the fragments of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    source: [u8; 4],
    destination: [u8; 4],
    pub(super) ident: u16,
    protocol: u8,
}

impl Key {
    /// Reads the key of the IP header that `ip` begins with.
    pub(super) fn new(ip: &[u8]) -> Key {
        Key {
            source: get_four(ip, SOURCE),
            destination: get_four(ip, DESTINATION),
            ident: get16(ip, IDENT),
            protocol: ip[PROTOCOL],
        }
    }

    pub(super) fn addresses(&self) -> [Ipv4Addr; 2] {
        [self.source.into(), self.destination.into()]
    }
}

/// Bytes that are there, in order and apart from each other.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<(usize, usize)>);

impl Ranges {
    /// Returns the ranges that overlap `from..to` or touch it.
    fn near(&self, from: usize, to: usize) -> std::ops::Range<usize> {
        let first = self.0.partition_point(|range| range.1 < from);
        let end = self.0.partition_point(|range| range.0 <= to);
        first..end.max(first)
    }

    /// Adds bytes.
    fn add(&mut self, from: usize, to: usize) {
        let near = self.near(from, to);
        let (mut first, mut last) = (from, to);
        if let Some(ranges) = self.0.get(near.clone()) {
            first = ranges.first().map_or(from, |range| range.0.min(from));
            last = ranges.last().map_or(to, |range| range.1.max(to));
        }
        self.0.splice(near, [(first, last)]);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.0.iter().copied()
    }

    /// Returns true if all of `0..to` is there.
    fn is_whole(&self, to: usize) -> bool {
        matches!(self.0[..], [(0, end)] if end >= to)
    }
}

/// A packet of which not all fragments are there.
#[derive(Debug)]
pub(super) struct Datagram {
    /// Tells it from one before with the same key.
    pub(super) number: u64,
    /// Bytes in front of the data of the first fragment; empty until that is there.
    pub(super) front: Vec<u8>,
    /// Offset of the IP header in it.
    pub(super) start: usize,
    /// Annotations of that fragment.
    pub(super) meta: Meta,
    pub(super) data: Vec<u8>,
    pub(super) ranges: Ranges,
    /// Length of the data, when the last fragment is there.
    pub(super) end: Option<usize>,
    /// Seconds since the epoch of its first fragment, or else of the first that
    /// came.
    pub(super) time: u64,
    /// Steady time of the fragment that came last, in nanoseconds.
    pub(super) heard: u64,
    /// Length of the longest fragment, its header included.
    pub(super) longest: u16,
}

/// A fragment contradicts another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

impl Datagram {
    pub(super) fn new(number: u64, meta: Meta, time: u64) -> Datagram {
        Datagram {
            number,
            front: Vec::new(),
            start: 0,
            meta,
            data: Vec::new(),
            ranges: Ranges::default(),
            end: None,
            time,
            heard: 0,
            longest: 0,
        }
    }

    /// Adds a fragment's data. Returns true if the packet is complete.
    pub(super) fn add(
        &mut self,
        from: usize,
        data: &[u8],
        is_last: bool,
    ) -> Result<bool, Contradiction> {
        let to = from + data.len();
        let beyond = self.end.is_some_and(|end| to > end || is_last && to != end);
        if beyond || is_last && to < self.data.len() {
            return Err(Contradiction);
        }
        // Bytes that have come before must be the same.
        for (first, last) in &self.ranges.0[self.ranges.near(from, to)] {
            let (first, last) = ((*first).max(from), (*last).min(to));
            if first < last && self.data[first..last] != data[first - from..last - from] {
                return Err(Contradiction);
            }
        }
        if is_last {
            self.end = Some(to);
        }
        if self.data.len() < to {
            self.data.resize(to, 0);
        }
        self.data[from..to].copy_from_slice(data);
        self.ranges.add(from, to);
        Ok(!self.front.is_empty() && self.end.is_some_and(|end| self.ranges.is_whole(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against an array with a mark for each byte that is there.
        #[test]
        fn ranges_are_sets(steps in prop::collection::vec((0..60usize, 1..9usize), 0..40)) {
            let (mut ranges, mut there) = (Ranges::default(), [false; 70]);
            for (from, length) in steps {
                ranges.add(from, from + length);
                there[from..from + length].fill(true);
                let mut found = [false; 70];
                let mut end = None;
                for (from, to) in ranges.iter() {
                    prop_assert!(from < to && end.is_none_or(|end| end < from));
                    end = Some(to);
                    found[from..to].fill(true);
                }
                prop_assert_eq!(found, there);
            }
        }
    }

    fn datagram() -> Datagram {
        Datagram { front: vec![0; 20], ..Datagram::new(0, Meta::EMPTY, 0) }
    }

    #[test]
    fn whole_when_all_is_there_in_any_order() {
        let mut datagram = datagram();
        assert_eq!(datagram.add(16, &[3; 5], true), Ok(false));
        assert_eq!(datagram.add(0, &[1; 8], false), Ok(false));
        assert_eq!(datagram.add(0, &[1; 8], false), Ok(false), "twice the same");
        assert_eq!(datagram.add(8, &[2; 8], false), Ok(true));
        assert_eq!(datagram.data, [&[1; 8][..], &[2; 8], &[3; 5]].concat());
    }

    #[test]
    fn contradictions() {
        let mut overlapping = datagram();
        assert_eq!(overlapping.add(8, &[1; 16], false), Ok(false));
        assert_eq!(overlapping.add(0, &[1; 16], false), Ok(false), "the same bytes");
        assert_eq!(overlapping.add(16, &[2; 16], false), Err(Contradiction));
        let mut ended = datagram();
        assert_eq!(ended.add(8, &[1; 8], true), Ok(false));
        assert_eq!(ended.add(16, &[1; 8], false), Err(Contradiction));
        assert_eq!(ended.add(8, &[1; 4], true), Err(Contradiction));
        let mut longer = datagram();
        assert_eq!(longer.add(16, &[1; 8], false), Ok(false));
        assert_eq!(longer.add(0, &[1; 8], true), Err(Contradiction));
    }
}

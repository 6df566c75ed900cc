//! Connection table: a hash by address and port, and a list in the order of last transmissions.
//!
//! The capacity is fixed, and its memory is allocated once.

use std::net::Ipv4Addr;

/// Buckets of the table.
const BUCKETS: usize = 1 << 10;
/// The null index.
const NONE: u32 = u32::MAX;

/// The client's state of a connection (a TCP control block).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Connection {
    pub(super) source: Option<Ipv4Addr>,
    pub(super) port: u16,
    /// The three numbers of the requested page.
    pub(super) page: [u8; 3],
    /// Sequence numbers: initial (ISS), first unacknowledged (SND.UNA) and next (SND.NXT).
    pub(super) first: u32,
    pub(super) unacknowledged: u32,
    pub(super) next: u32,
    /// Next sequence number expected of the server (RCV.NXT).
    pub(super) expected: u32,
    pub(super) is_connected: bool,
    pub(super) got_fin: bool,
    pub(super) sent_fin: bool,
    /// Whether an acknowledgement is due.
    pub(super) must_send: bool,
    pub(super) resends: u8,
    pub(super) sent_at: u64,
    /// Links of the table, for `Connections` alone.
    pub(super) links: Links,
}

/// Indices of the next connection in the bucket, and of the neighbours in the list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Links {
    chain: u32,
    older: u32,
    newer: u32,
}

/// Counters of connection events since the last report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) begun: u32,
    pub(super) completed: u32,
    pub(super) given_up: u32,
    pub(super) reset: u32,
}

#[derive(Debug)]
pub(super) struct Connections {
    places: Vec<Connection>,
    /// Indices of freed entries.
    free: Vec<u32>,
    most: usize,
    buckets: Vec<u32>,
    /// Ends of the list: the connections with the oldest and the newest transmission.
    oldest: u32,
    newest: u32,
    pub(super) counts: Counts,
}

fn bucket(source: Ipv4Addr, port: u16) -> usize {
    let [_, _, high, low] = source.octets();
    usize::from(u16::from_be_bytes([high, low]) ^ port) % BUCKETS
}

impl Connections {
    /// An empty table with a capacity of `most` connections.
    pub(super) fn new(most: usize) -> Connections {
        Connections {
            places: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            most,
            buckets: vec![NONE; BUCKETS],
            oldest: NONE,
            newest: NONE,
            counts: Counts::default(),
        }
    }

    /// Capacity of the table.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn get(&mut self, place: u32) -> &mut Connection {
        &mut self.places[place as usize]
    }

    /// Adds a connection and returns its index; `None` if the table is full.
    pub(super) fn add(&mut self, connection: Connection) -> Option<u32> {
        let source = connection.source?;
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < self.most => {
                self.places.push(Connection::default());
                (self.places.len() - 1) as u32
            }
            None => return None,
        };
        let head = &mut self.buckets[bucket(source, connection.port)];
        let links = Links { chain: *head, ..Links::default() };
        self.places[place as usize] = Connection { links, ..connection };
        *head = place;
        self.append(place);
        Some(place)
    }

    /// Index of the connection with this address and port.
    pub(super) fn find(&self, source: Ipv4Addr, port: u16) -> Option<u32> {
        let mut place = self.buckets[bucket(source, port)];
        while place != NONE {
            let here = &self.places[place as usize];
            if here.source == Some(source) && here.port == port {
                return Some(place);
            }
            place = here.links.chain;
        }
        None
    }

    /// Records a transmission: moves the connection to the end of the list.
    pub(super) fn sent(&mut self, place: u32, now: u64) {
        self.unlink(place);
        self.append(place);
        self.get(place).sent_at = now;
    }

    /// Index of the connection with the oldest transmission.
    pub(super) fn oldest(&self) -> Option<u32> {
        Some(self.oldest).filter(|place| *place != NONE)
    }

    /// Removes a connection and frees its entry.
    pub(super) fn remove(&mut self, place: u32) {
        self.unlink(place);
        let Connection { source, port, links: Links { chain, .. }, .. } = *self.get(place);
        let Some(source) = source else { return };
        let start = bucket(source, port);
        if self.buckets[start] == place {
            self.buckets[start] = chain;
        } else {
            let mut at = self.buckets[start];
            while at != NONE && self.places[at as usize].links.chain != place {
                at = self.places[at as usize].links.chain;
            }
            if at != NONE {
                self.get(at).links.chain = chain;
            }
        }
        self.get(place).source = None;
        self.free.push(place);
    }

    fn append(&mut self, place: u32) {
        let before = std::mem::replace(&mut self.newest, place);
        let here = &mut self.get(place).links;
        (here.older, here.newer) = (before, NONE);
        if before == NONE {
            self.oldest = place;
        } else {
            self.get(before).links.newer = place;
        }
    }

    fn unlink(&mut self, place: u32) {
        let Links { older, newer, .. } = self.get(place).links;
        if older == NONE {
            self.oldest = newer;
        } else {
            self.get(older).links.newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            self.get(newer).links.older = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the table with a list, the connection with the oldest transmission first.
        #[test]
        fn all_are_found_until_they_are_over(
            steps in prop::collection::vec((0..3u8, 0..12u16), 1..200),
        ) {
            let mut connections = Connections::new(8);
            let mut model: Vec<(u16, u32)> = Vec::new();
            let source = Ipv4Addr::new(1, 0, 0, 1);
            for (step, number) in steps {
                // Some ports share a bucket.
                let port = number % 4 + number / 4 * BUCKETS as u16;
                let known = model.iter().position(|(other, _)| *other == port);
                match (step, known) {
                    (0, None) => {
                        let made = Connection { source: Some(source), port, ..Default::default() };
                        let place = connections.add(made);
                        prop_assert_eq!(place.is_some(), model.len() < 8);
                        model.extend(place.map(|place| (port, place)));
                    }
                    (1, Some(at)) => {
                        let found = model.remove(at);
                        connections.sent(found.1, 5);
                        model.push(found);
                    }
                    (2, Some(at)) => connections.remove(model.remove(at).1),
                    _ => {}
                }
                prop_assert_eq!(connections.oldest(), model.first().map(|(_, place)| *place));
                for port in (0..12).map(|number| number % 4 + number / 4 * BUCKETS as u16) {
                    let known = model.iter().find(|(other, _)| *other == port);
                    prop_assert_eq!(connections.find(source, port), known.map(|(_, place)| *place));
                }
            }
        }
    }
}

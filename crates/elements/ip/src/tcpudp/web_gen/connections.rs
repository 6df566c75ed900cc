//! The connections there are: by address and port, and by when each last sent something.
//!
//! Their number is limited, and their places are made once.

use std::net::Ipv4Addr;

/// Buckets of the table.
const BUCKETS: usize = 1 << 10;
/// No place.
const NONE: u32 = u32::MAX;

/// A connection, as far as a client knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Connection {
    pub(super) source: Option<Ipv4Addr>,
    pub(super) port: u16,
    /// The three numbers of the page that it asks for.
    pub(super) page: [u8; 3],
    /// The first sequence number, the first that is not acknowledged, and the next.
    pub(super) first: u32,
    pub(super) unacknowledged: u32,
    pub(super) next: u32,
    /// The next sequence number of the server.
    pub(super) expected: u32,
    pub(super) is_connected: bool,
    pub(super) got_fin: bool,
    pub(super) sent_fin: bool,
    /// Whether there is something to be acknowledged.
    pub(super) must_send: bool,
    pub(super) resends: u8,
    pub(super) sent_at: u64,
    /// What `Connections` knows of it.
    pub(super) links: Links,
}

/// The next place in its bucket, and those of the connections that sent something before and after.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Links {
    chain: u32,
    older: u32,
    newer: u32,
}

/// What has become of connections since the last report.
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
    /// Places that were used and are free.
    free: Vec<u32>,
    most: usize,
    buckets: Vec<u32>,
    /// The one that has sent nothing for longest, and the one that has sent last.
    oldest: u32,
    newest: u32,
    pub(super) counts: Counts,
}

fn bucket(source: Ipv4Addr, port: u16) -> usize {
    let [_, _, high, low] = source.octets();
    usize::from(u16::from_be_bytes([high, low]) ^ port) % BUCKETS
}

impl Connections {
    /// None, with places for so many.
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

    /// How many there can be.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn get(&mut self, place: u32) -> &mut Connection {
        &mut self.places[place as usize]
    }

    /// A new one; none when there is no place.
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

    /// The one with this address and port, if there is one.
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

    /// It has sent something.
    pub(super) fn sent(&mut self, place: u32, now: u64) {
        self.unlink(place);
        self.append(place);
        self.get(place).sent_at = now;
    }

    /// The one that has sent nothing for longest.
    pub(super) fn oldest(&self) -> Option<u32> {
        Some(self.oldest).filter(|place| *place != NONE)
    }

    /// It is over.
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
        /// Against a list, the one that has sent nothing for longest first.
        #[test]
        fn all_are_found_until_they_are_over(
            steps in prop::collection::vec((0..3u8, 0..12u16), 1..200),
        ) {
            let mut connections = Connections::new(8);
            let mut model: Vec<(u16, u32)> = Vec::new();
            let source = Ipv4Addr::new(1, 0, 0, 1);
            for (step, number) in steps {
                // Some ports are of one bucket.
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

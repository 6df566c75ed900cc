//! Mappings of addresses and ports.
//!
//! A mapping that is not configured takes a place: an address of a list, or a port of a range. A
//! place whose mapping was not used for a while is given to the next that needs one.

use linerate_memory::MemoryError;
use linerate_tables::exact::{Backing, Table};

/// Places tried for an unused one.
const TRIES: usize = 64;
/// Mappings that can be configured, and places there can be.
pub(super) const LIMIT: usize = 1 << 16;

/// Direction of a packet: out, with a mapped source, or in, with a mapped destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    In,
}

/// An address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: u128,
    pub(super) port: u16,
}

/// The two ends of a packet: the one that is mapped, and the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) mapped: Endpoint,
    pub(super) peer: Endpoint,
    pub(super) protocol: u8,
}

type Key = [u64; 5];

fn key(ends: &Flow, ports: bool) -> Key {
    let [hi, lo] = halves(ends.mapped.address);
    if !ports {
        return [hi, lo, 0, 0, 0];
    }
    let [peer_hi, peer_lo] = halves(ends.peer.address);
    let ports = u64::from(ends.mapped.port) << 16 | u64::from(ends.peer.port);
    [hi, lo, peer_hi, peer_lo, u64::from(ends.protocol) << 32 | ports]
}

fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// The configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Configured mappings, from inside to outside.
    pub(super) fixed: Vec<(Endpoint, Endpoint)>,
    /// Whether ports are in those.
    pub(super) fixed_ports: bool,
    pub(super) places: Option<Places>,
}

/// Places for mappings that are made when packets come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// The way of packets that make mappings.
    pub(super) way: Direction,
    pub(super) ends: Vec<Endpoint>,
    /// Whether they are ports of an address.
    pub(super) ports: bool,
    /// Milliseconds after which a mapping that is not used may go.
    pub(super) timeout: u64,
}

/// A mapping in its place.
#[derive(Debug, Clone, Copy)]
struct Mapping {
    /// The endpoint it maps.
    owner: Endpoint,
    keys: [Key; 2],
    used: u64,
}

/// The tables.
pub(super) struct Mappings {
    plan: Plan,
    /// Configured ones, by way.
    fixed: [Table<[u64; 3], Endpoint>; 2],
    /// Places by their owners, and by their own endpoints.
    taken: [Table<Key, u32>; 2],
    mappings: Vec<Option<Mapping>>,
    /// Place to be tried next.
    rover: usize,
    /// Packets there was no place for.
    pub(super) refused: u64,
}

impl Mappings {
    pub(super) fn new(plan: Plan) -> Result<Mappings, MemoryError> {
        let mut fixed = [
            Table::new(plan.fixed.len(), Backing::OnDemand)?,
            Table::new(plan.fixed.len(), Backing::OnDemand)?,
        ];
        for (inside, outside) in &plan.fixed {
            // The first of several counts.
            for (table, from, to) in [(0, inside, outside), (1, outside, inside)] {
                let key = fixed_key(from, plan.fixed_ports);
                if fixed[table].lookup(&key).is_none() {
                    let _ = fixed[table].insert(key, *to);
                }
            }
        }
        let count = plan.places.as_ref().map_or(0, |places| places.ends.len());
        Ok(Mappings {
            fixed,
            taken: [Table::new(count, Backing::OnDemand)?, Table::new(count, Backing::OnDemand)?],
            mappings: vec![None; count],
            plan,
            rover: 0,
            refused: 0,
        })
    }

    /// Mappings there are besides those configured.
    pub(super) fn count(&self) -> usize {
        self.taken[0].len()
    }

    /// Returns true if whole addresses are mapped, without regard to ports.
    pub(super) fn is_by_address(&self) -> bool {
        let fixed = self.plan.fixed.is_empty() || !self.plan.fixed_ports;
        fixed && self.plan.places.as_ref().is_none_or(|places| !places.ports)
    }

    /// Returns the endpoint that the mapped end of a packet becomes.
    pub(super) fn map(&mut self, way: Direction, flow: &Flow, now: u64) -> Option<Endpoint> {
        let fixed = &self.fixed[way as usize];
        let found = fixed.lookup(&fixed_key(&flow.mapped, self.plan.fixed_ports));
        if let Some(&to) = found.and_then(|entry| fixed.get(entry)) {
            let port = if self.plan.fixed_ports { to.port } else { flow.mapped.port };
            return Some(Endpoint { port, ..to });
        }
        let Places { way: makes, ports, .. } = *self.plan.places.as_ref()?;
        let table = &self.taken[usize::from(way != makes)];
        let found = table.lookup(&key(flow, ports)).and_then(|entry| table.get(entry));
        let to = match (found, way == makes) {
            (Some(&place), owns) => {
                let end = self.plan.places.as_ref()?.ends[place as usize];
                let mapping = self.mappings[place as usize].as_mut()?;
                mapping.used = now;
                if owns { end } else { mapping.owner }
            }
            (None, true) => self.make(flow, now)?,
            (None, false) => return None,
        };
        Some(Endpoint { port: if ports { to.port } else { flow.mapped.port }, ..to })
    }

    /// Makes a mapping, in an unused place.
    fn make(&mut self, flow: &Flow, now: u64) -> Option<Endpoint> {
        let places = self.plan.places.as_ref()?;
        let count = self.mappings.len();
        let is_free = |mapping: &Option<Mapping>| {
            mapping.is_none_or(|mapping| now.saturating_sub(mapping.used) >= places.timeout)
        };
        let place = (0..TRIES.min(count))
            .map(|step| (self.rover + step) % count)
            .find(|place| is_free(&self.mappings[*place]));
        let tried = self.rover + TRIES.min(count);
        self.rover = place.map_or(tried, |place| place + 1) % count.max(1);
        let Some(place) = place else {
            self.refused += 1;
            return None;
        };
        if let Some(old) = self.mappings[place].take() {
            for (table, key) in self.taken.iter_mut().zip(&old.keys) {
                table.remove(key);
            }
        }
        let end = places.ends[place];
        let turned = Flow { mapped: end, ..*flow };
        let keys = [key(flow, places.ports), key(&turned, places.ports)];
        for (table, key) in self.taken.iter_mut().zip(keys) {
            // There is room for as many as there are places.
            let _ = table.insert(key, place as u32);
        }
        self.mappings[place] = Some(Mapping { owner: flow.mapped, keys, used: now });
        Some(end)
    }

    /// Takes over the mappings of another, if the configuration is the same.
    pub(super) fn take_from(&mut self, old: &mut Mappings) {
        if self.plan == old.plan {
            std::mem::swap(self, old);
        }
    }
}

fn fixed_key(end: &Endpoint, ports: bool) -> [u64; 3] {
    let [hi, lo] = halves(end.address);
    [hi, lo, if ports { end.port.into() } else { 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(address: u128, port: u16) -> Endpoint {
        Endpoint { address, port }
    }

    fn flow(address: u128, port: u16, peer: u128) -> Flow {
        Flow { mapped: end(address, port), peer: end(peer, 80), protocol: 6 }
    }

    fn with(places: Places) -> Mappings {
        Mappings::new(Plan { places: Some(places), ..Plan::default() }).unwrap()
    }

    #[test]
    fn configured_mappings_hold_both_ways() {
        let fixed = vec![(end(1, 5), end(100, 50)), (end(2, 6), end(100, 60))];
        let mut ports =
            Mappings::new(Plan { fixed: fixed.clone(), fixed_ports: true, places: None }).unwrap();
        assert_eq!(ports.map(Direction::Out, &flow(1, 5, 9), 0), Some(end(100, 50)));
        assert_eq!(ports.map(Direction::In, &flow(100, 60, 9), 0), Some(end(2, 6)));
        assert_eq!(ports.map(Direction::Out, &flow(1, 6, 9), 0), None);
        let mut addresses =
            Mappings::new(Plan { fixed, fixed_ports: false, places: None }).unwrap();
        assert_eq!(addresses.map(Direction::Out, &flow(2, 7, 9), 0), Some(end(100, 7)));
        assert_eq!(addresses.map(Direction::In, &flow(100, 7, 9), 0), Some(end(1, 7)), "the first");
    }

    #[test]
    fn addresses_are_lent() {
        let ends = vec![end(100, 0), end(101, 0)];
        let mut lent = with(Places { way: Direction::Out, ends, ports: false, timeout: 1000 });
        assert_eq!(lent.map(Direction::In, &flow(100, 7, 9), 0), None);
        assert_eq!(lent.map(Direction::Out, &flow(1, 7, 9), 0), Some(end(100, 7)));
        assert_eq!(lent.map(Direction::Out, &flow(2, 8, 9), 10), Some(end(101, 8)));
        assert_eq!(lent.map(Direction::Out, &flow(3, 8, 9), 20), None);
        assert_eq!((lent.refused, lent.count()), (1, 2));
        assert_eq!(lent.map(Direction::In, &flow(100, 9, 5), 900), Some(end(1, 9)));
        // The other was not used since.
        assert_eq!(lent.map(Direction::Out, &flow(3, 8, 9), 1010), Some(end(101, 8)));
        assert_eq!(lent.map(Direction::In, &flow(101, 8, 9), 1010), Some(end(3, 8)));
        assert_eq!(lent.count(), 2);
    }

    #[test]
    fn ports_are_lent_to_flows() {
        for (way, back) in [(Direction::Out, Direction::In), (Direction::In, Direction::Out)] {
            let ends = (50..60).map(|port| end(100, port)).collect();
            let mut lent = with(Places { way, ends, ports: true, timeout: 1000 });
            for number in 0..10u16 {
                let to = lent.map(way, &flow(1, number, 9), 0).unwrap();
                assert_eq!(to, end(100, 50 + number));
                assert_eq!(lent.map(way, &flow(1, number, 9), 0), Some(to));
                assert_eq!(lent.map(back, &flow(100, to.port, 9), 0), Some(end(1, number)));
                assert_eq!(lent.map(back, &flow(100, to.port, 8), 0), None, "another peer");
            }
            assert_eq!(lent.map(way, &flow(1, 10, 9), 999), None);
            assert_eq!(lent.map(way, &flow(1, 10, 9), 1000), Some(end(100, 50)));
            assert_eq!(lent.count(), 10);
        }
    }
}

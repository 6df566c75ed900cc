//! Routes and addresses for lookups, in files, so that a peer's program gets
//! the same. Made from fixed seeds.
//!
//! `TABLE.routes` holds of each route its address, 32 bits of length and 32 bits
//! of next hop, in order; `TABLE.mixed` holds the same routes by their lengths,
//! otherwise at random, so that each is still behind those that contain it.
//! `TABLE.few` and `TABLE.random` hold addresses. An IPv4 address is 32 bits of
//! this machine, an IPv6 address its 16 bytes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use linerate_tables::prefix::{Address, NextHop, Prefix};
use serde_json::{Value, json};

/// Next hops routes are spread over.
const NEXT_HOPS: u32 = 256;
/// Destinations that fit a cache; routers are measured with as many.
const FEW: usize = 1 << 16;
/// Destinations that fit none.
const RANDOM: usize = 1 << 22;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder for the files.
    folder: PathBuf,
}

/// A table that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Table {
    /// A default route.
    One4,
    /// 100,000 prefixes of any address and any length from 8 on.
    Random4,
    /// A million prefixes of the lengths the Internet's have.
    Internet4,
    /// A default route.
    One6,
    /// 100,000 prefixes of any global unicast address and 20 to 64 bits.
    Random6,
    /// 200,000 prefixes, as many as the Internet has: allocations of 32 bits,
    /// and parts of them.
    Internet6,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    fs::create_dir_all(&args.folder).context("no folder for the tables")?;
    for table in Table::value_variants() {
        let name = table.to_possible_value().context("a name")?.get_name().to_owned();
        let path = args.folder.join(name);
        match table {
            Table::One4 => write::<u32>(&path, &BTreeMap::from([(Prefix::ALL, hop(1))]), any4)?,
            Table::Random4 => write(&path, &random4()?, any4)?,
            Table::Internet4 => write(&path, &internet4()?, any4)?,
            Table::One6 => write::<u128>(&path, &BTreeMap::from([(Prefix::ALL, hop(1))]), any6)?,
            Table::Random6 => write(&path, &random6()?, any6)?,
            Table::Internet6 => write(&path, &internet6()?, any6)?,
        }
    }
    Ok(json!({}))
}

type Routes<A> = BTreeMap<Prefix<A>, NextHop>;

fn hop(number: u32) -> NextHop {
    NextHop::new(number).unwrap_or(NextHop::NONE)
}

fn any4(random: &mut fastrand::Rng) -> u32 {
    random.u32(..)
}

fn any6(random: &mut fastrand::Rng) -> u128 {
    random.u128(..) >> 3 | 1 << 125
}

/// `count` different prefixes.
fn routes<A: Address>(
    count: usize,
    mut prefix: impl FnMut(&mut fastrand::Rng) -> (A, u8),
) -> Result<Routes<A>> {
    let mut random = fastrand::Rng::with_seed(count as u64);
    let mut routes = BTreeMap::new();
    while routes.len() < count {
        let (address, length) = prefix(&mut random);
        routes.entry(Prefix::new(address, length)?).or_insert(hop(random.u32(1..=NEXT_HOPS)));
    }
    Ok(routes)
}

fn random4() -> Result<Routes<u32>> {
    routes(100_000, |random| (any4(random), random.u8(8..=32)))
}

fn random6() -> Result<Routes<u128>> {
    routes(100_000, |random| (any6(random), random.u8(20..=64)))
}

/// One of the lengths, by their shares of a thousand.
fn length(random: &mut fastrand::Rng, shares: &[(u8, u32)]) -> u8 {
    let mut at = random.u32(..1000);
    for (length, share) in shares {
        match at.checked_sub(*share) {
            Some(rest) => at = rest,
            None => return *length,
        }
    }
    shares.last().map_or(0, |(length, _)| *length)
}

/// Shares of lengths shaped like the table of a router of the Internet's core:
/// more than half are of 24 bits. Round numbers, not a measured table.
pub(crate) fn internet4() -> Result<Routes<u32>> {
    const SHARES: [(u8, u32); 14] = [
        (11, 1),
        (12, 1),
        (13, 1),
        (14, 2),
        (15, 2),
        (16, 14),
        (17, 9),
        (18, 14),
        (19, 25),
        (20, 45),
        (21, 55),
        (22, 115),
        (23, 105),
        (24, 611),
    ];
    routes(1_000_000, |random| (random.u32(0x0100_0000..0xe000_0000), length(random, &SHARES)))
}

fn internet6() -> Result<Routes<u128>> {
    const BLOCKS: [u128; 6] = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00];
    const SHARES: [(u8, u32); 8] =
        [(29, 25), (32, 110), (33, 20), (36, 50), (40, 100), (44, 110), (46, 45), (48, 540)];
    let mut random = fastrand::Rng::with_seed(32);
    let mut allocation =
        || BLOCKS[random.usize(..6)] << 112 | u128::from(random.u32(..)) << 96 >> 4;
    let allocations: Vec<u128> = (0..30_000).map(|_| allocation()).collect();
    routes(200_000, |random| {
        let allocation = allocations[random.usize(..allocations.len())];
        (allocation | random.u128(..) >> 32, length(random, &SHARES))
    })
}

fn write<A: InFile>(
    path: &Path,
    routes: &Routes<A>,
    any: impl Fn(&mut fastrand::Rng) -> A,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut listed: Vec<_> = routes.iter().collect();
    write_routes(&path.with_extension("routes"), &listed)?;
    fastrand::Rng::with_seed(2).shuffle(&mut listed);
    listed.sort_by_key(|(prefix, _)| prefix.length());
    write_routes(&path.with_extension("mixed"), &listed)?;
    let prefixes: Vec<_> = routes.keys().collect();
    let mut inside = || {
        let prefix = prefixes[random.usize(..prefixes.len())];
        let any = any(&mut random);
        // What the prefix leaves open is random.
        A::between(prefix.first(), prefix.last(), any)
    };
    let few: Vec<A> = (0..FEW).map(|_| inside()).collect();
    let random: Vec<A> = match A::BITS {
        32 => (0..RANDOM).map(|_| any(&mut random)).collect(),
        // Hardly any address of IPv6 has a route.
        _ => (0..RANDOM).map(|_| inside()).collect(),
    };
    for (kind, addresses) in [("few", few), ("random", random)] {
        let mut bytes = Vec::new();
        addresses.into_iter().for_each(|address| address.write(&mut bytes));
        fs::write(path.with_extension(kind), bytes).context("cannot write the addresses")?;
    }
    Ok(())
}

fn write_routes<A: InFile>(path: &Path, routes: &[(&Prefix<A>, &NextHop)]) -> Result<()> {
    let mut bytes = Vec::new();
    for (prefix, hop) in routes {
        prefix.first().write(&mut bytes);
        bytes.extend(u32::from(prefix.length()).to_ne_bytes());
        bytes.extend((hop.index() as u32).to_ne_bytes());
    }
    fs::write(path, bytes).context("cannot write the routes")
}

/// An address as it is in the files.
pub(super) trait InFile: Address {
    const BYTES: usize = Self::BITS as usize / 8;
    fn write(self, to: &mut Vec<u8>);
    fn read(from: &[u8]) -> Self;
    /// An address from `first` to `last` of a prefix, by the bits of `any`.
    fn between(first: Self, last: Self, any: Self) -> Self;
}

impl InFile for u32 {
    fn write(self, to: &mut Vec<u8>) {
        to.extend(self.to_ne_bytes());
    }

    fn read(from: &[u8]) -> u32 {
        from.try_into().map_or(0, u32::from_ne_bytes)
    }

    fn between(first: u32, last: u32, any: u32) -> u32 {
        first | any & (first ^ last)
    }
}

impl InFile for u128 {
    fn write(self, to: &mut Vec<u8>) {
        to.extend(self.to_be_bytes());
    }

    fn read(from: &[u8]) -> u128 {
        from.try_into().map_or(0, u128::from_be_bytes)
    }

    fn between(first: u128, last: u128, any: u128) -> u128 {
        first | any & (first ^ last)
    }
}

pub(super) fn read_routes<A: InFile>(path: &Path) -> Result<Vec<(Prefix<A>, NextHop)>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let words = |record: &[u8]| [0, 4].map(|at| u32::read(&record[at..at + 4]));
    let mut routes = Vec::new();
    for record in bytes.chunks_exact(A::BYTES + 8) {
        let (address, rest) = record.split_at(A::BYTES);
        let [length, number] = words(rest);
        let next_hop = NextHop::new(number).context("a next hop in the file is no number")?;
        routes.push((Prefix::new(A::read(address), length.try_into()?)?, next_hop));
    }
    Ok(routes)
}

pub(super) fn read_addresses<A: InFile>(path: &Path) -> Result<Vec<A>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(bytes.len().is_multiple_of(A::BYTES), "{} is cut off", path.display());
    Ok(bytes.chunks_exact(A::BYTES).map(A::read).collect())
}

//! Lookups of eight addresses at a time, where the processor has AVX-512.
//!
//! As [`Arrays::lookup_block`], which takes one address after the other, with the same nodes: see
//! there. Eight addresses stay together as a group, each with its node, until all of them are
//! decided, and a level is one pass over the groups that have any to decide. So a step moves
//! nothing between lists, and the loads of a group do not depend on those of another: the processor
//! has several groups under way by itself, and lines need not be asked for ahead.
//!
//! Which of its node's ways an address takes is computed for eight in as many instructions as for
//! one. Nodes are loaded whole and turned, a load for each and eight shuffles, where gathers would
//! take four loads for each.

use linerate_memory::{Eight, WIDE, Wide, WideWork};

use super::{Address, Arrays, HALF, LOW, Lookup, NODE, NextHop, SHIFT, SKIPS, STRIDE};

/// Addresses from which on this is quicker.
pub(super) const WORTH: usize = 2 * WIDE;
/// Groups that are looked up side by side.
const GROUPS: usize = 32;
const BLOCK: usize = GROUPS * WIDE;

/// Progress of the addresses of a block.
#[repr(align(64))]
struct Block {
    /// The upper halves of the addresses.
    halves: [[u64; WIDE]; GROUPS],
    /// Their nodes or, of those that are decided by the direct array or a skip, their answers.
    at: [[u32; WIDE]; GROUPS],
    /// Indices in `leaves` of the answers of those that a fork decided.
    places: [[u32; WIDE]; GROUPS],
    /// Addresses that are not decided, and those that a fork decided: a bit each.
    open: [u8; GROUPS],
    forked: [u8; GROUPS],
}

/// Constants that are kept in registers.
struct Steps {
    wide: Wide,
    one: Eight,
    low: Eight,
    skip: Eight,
    shift: Eight,
    node: Eight,
    stride: Eight,
    upper_half: Eight,
    lower_half: Eight,
    all: Eight,
}

impl<A: Address, const DIRECT: u32> WideWork for Lookup<'_, A, DIRECT> {
    #[inline(always)]
    fn run(self, wide: Wide) {
        // Not in a closure, which would be compiled for the oldest processor.
        for (addresses, hops) in self.addresses.chunks(BLOCK).zip(self.hops.chunks_mut(BLOCK)) {
            self.arrays.lookup_wide(wide, addresses, hops);
        }
    }
}

impl<const DIRECT: u32> Arrays<'_, DIRECT> {
    /// As [`Arrays::lookup_block`].
    #[inline(always)]
    fn lookup_wide<A: Address>(self, wide: Wide, addresses: &[A], hops: &mut [NextHop]) {
        if !self.open(addresses, hops) {
            return;
        }
        let steps = Steps::new(wide);
        let mut block = Block::EMPTY;
        block.start(&steps, addresses, hops);
        let groups = addresses.len().div_ceil(WIDE).min(GROUPS);
        // Every node decides a bit at least, also where its words are being rewritten.
        for _ in DIRECT..A::BITS {
            let mut any = 0;
            for group in 0..groups {
                if block.open[group] != 0 {
                    any |= self.step(&steps, addresses, &mut block, group);
                }
            }
            if any == 0 {
                break;
            }
        }
        for (hops, at) in hops.chunks_mut(WIDE).zip(&block.at) {
            hops.iter_mut().zip(at).for_each(|(hop, answer)| hop.0 = *answer);
        }
        self.leaves_of(&steps, &block, groups, hops);
    }

    /// Goes on by one node with a group. Says which of its addresses are then not decided.
    #[inline(always)]
    fn step<A: Address>(
        self,
        steps: &Steps,
        addresses: &[A],
        block: &mut Block,
        group: usize,
    ) -> u8 {
        let Steps { wide, one, low, skip, shift, node, stride, upper_half, lower_half, all } =
            *steps;
        let open = block.open[group];
        let names = block.at[group];
        // Those of addresses that are decided are any nodes.
        let [first, second, third, kind] = wide.columns(names.map(|name| self.node(name)));
        let upper = wide.load(&block.halves[group]);
        let half = match kind.meets(low) & open {
            0 => upper,
            lower => upper.or_where(lower, lower_halves(wide, addresses, group)),
        };
        let by = kind.and(shift);
        // As forks: `first` is the vector, `second` the leafvec, `third` the bases.
        let branch = half.left(by).right(stride);
        let mask = all.right(shift.minus(branch));
        let child = third.right(upper_half).plus(first.and(mask).ones()).minus(one);
        let end = third.plus(second.and(mask).ones()).minus(one);
        let forks_on = first.right(branch).meets(one);
        // As skips: `first` is the key, `second` has both ways.
        let differs = half.xor(first).right(by);
        let way = second.or_where(differs.meets(differs), second.right(upper_half));
        let way = way.and(lower_half);
        let skips = kind.meets(skip);
        let on = (skips & way.meets(node) | !skips & forks_on) & open;
        let forked = open & !skips & !forks_on;
        let next = child.or_where(skips, way);
        wide.load_short(&names).or_where(open, next).store_short(&mut block.at[group]);
        let places = wide.load_short(&block.places[group]);
        places.or_where(forked, end).store_short(&mut block.places[group]);
        block.forked[group] |= forked;
        block.open[group] = on;
        on
    }

    /// Fetches the answers of forks.
    #[inline(always)]
    fn leaves_of(self, steps: &Steps, block: &Block, groups: usize, hops: &mut [NextHop]) {
        // Room for eight that are written at once, the last of them behind the end.
        let (mut which, mut places) = ([0; BLOCK + WIDE], [0; BLOCK + WIDE]);
        let (mut count, mut i) = (0, steps.wide.load(&[0, 1, 2, 3, 4, 5, 6, 7]));
        let eight = steps.wide.splat(WIDE as u64);
        for group in 0..groups {
            let forked = block.forked[group];
            let place = steps.wide.load_short(&block.places[group]);
            if let (Some(which), Some(places)) =
                (which[count..].first_chunk_mut(), places[count..].first_chunk_mut())
            {
                i.compressed(forked).store_short(which);
                place.compressed(forked).store_short(places);
            }
            count += forked.count_ones() as usize;
            i = i.plus(eight);
        }
        self.answer(&which[..count], &places[..count], hops);
    }
}

impl Block {
    const EMPTY: Block = Block {
        halves: [[0; WIDE]; GROUPS],
        at: [[0; WIDE]; GROUPS],
        places: [[0; WIDE]; GROUPS],
        open: [0; GROUPS],
        forked: [0; GROUPS],
    };

    /// Puts all to the nodes that the words of the direct array name, which are in `hops`.
    #[inline(always)]
    fn start<A: Address>(&mut self, steps: &Steps, addresses: &[A], hops: &[NextHop]) {
        let (addresses, last_addresses) = addresses.as_chunks::<WIDE>();
        let (hops, last_hops) = hops.as_chunks::<WIDE>();
        for (group, (addresses, hops)) in addresses.iter().zip(hops).enumerate().take(GROUPS) {
            self.halves[group] = addresses.map(|address| address.half(false));
            self.at[group] = hops.map(|hop| hop.0);
            self.open[group] = steps.undecided(&self.at[group]);
        }
        if !last_addresses.is_empty() && addresses.len() < GROUPS {
            let group = addresses.len();
            for (i, (address, hop)) in last_addresses.iter().zip(last_hops).enumerate() {
                (self.halves[group][i], self.at[group][i]) = (address.half(false), hop.0);
            }
            self.open[group] = steps.undecided(&self.at[group]);
        }
    }
}

impl Steps {
    #[inline(always)]
    fn new(wide: Wide) -> Steps {
        Steps {
            wide,
            one: wide.splat(1),
            low: wide.splat(LOW),
            skip: wide.splat(SKIPS),
            shift: wide.splat(SHIFT),
            node: wide.splat(NODE.into()),
            stride: wide.splat((HALF - STRIDE).into()),
            upper_half: wide.splat(u64::from(HALF) / 2),
            lower_half: wide.splat(u32::MAX.into()),
            all: wide.splat(u64::MAX),
        }
    }

    /// Returns a bit for each of eight words that names a node.
    #[inline(always)]
    fn undecided(&self, words: &[u32; WIDE]) -> u8 {
        self.wide.load_short(words).meets(self.node)
    }
}

/// The lower halves of the addresses of a group.
#[inline(always)]
fn lower_halves<A: Address>(wide: Wide, addresses: &[A], group: usize) -> Eight {
    let mut halves = [0; WIDE];
    for (half, address) in halves.iter_mut().zip(&addresses[group * WIDE..]) {
        *half = address.half(true);
    }
    wide.load(&halves)
}

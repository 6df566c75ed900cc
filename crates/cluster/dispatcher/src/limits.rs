//! Limits of a broker's connections, by user.
//!
//! Connections of users other than the server's and root are limited, together and for each user, so that
//! places are left for the server's user and root. When all places are taken, a new connection of these two
//! displaces one that is not a consumer: an administrator's program can always connect. The displaced connection is
//! of the process with the most, so a process that opens many displaces its own.

use std::{cmp::Reverse, collections::HashMap, time::Instant};

/// Most connections at a time, consumers and others.
const CONNECTIONS_MAX: usize = 256;
/// Most connections of all other users together, and of one of them.
const OTHERS_MAX: usize = 192;
const USER_MAX: usize = 48;
/// Most consumers of one other user, and bytes of the memory that is made for them alone.
const CONSUMERS_MAX: usize = 16;
const MEMORY_MAX: u64 = 512 << 20;

/// A connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    pub(crate) user: u32,
    /// The process that connected.
    pub(crate) process: u64,
    /// Whether the user is the server's or root.
    pub(crate) trusted: bool,
    /// Whether it is a consumer's.
    pub(crate) consumes: bool,
    /// Whether it has requested figures or changes.
    pub(crate) asks: bool,
    /// Time of its connecting, or of its last request.
    pub(crate) heard: Instant,
    /// Bytes of memory of its own.
    pub(crate) memory: u64,
}

/// Room for one more connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    /// There is if this connection ends.
    Instead(usize),
    /// There is none, for this reason.
    None(String),
}

/// Finds room for a connection of a user.
pub(crate) fn room(
    holders: impl Iterator<Item = Holder> + Clone,
    user: u32,
    trusted: bool,
) -> Room {
    let (mut all, mut others, mut of_user) = (0, 0, 0);
    for holder in holders.clone() {
        all += 1;
        others += usize::from(!holder.trusted);
        of_user += usize::from(holder.user == user);
    }
    if !trusted && of_user >= USER_MAX {
        return Room::None(format!("user {user} has {of_user} connections, the most allowed"));
    }
    if !trusted && others >= OTHERS_MAX {
        return Room::None(format!("other users have {others} connections, the most allowed"));
    }
    if all < CONNECTIONS_MAX {
        return Room::Free;
    }
    match displaced(holders).filter(|_| trusted) {
        Some(at) => Room::Instead(at),
        None => Room::None(format!("there are {all} connections, the most allowed")),
    }
}

/// The connection that leaves first: of other users, then of the process with the most, then one that has its answer,
/// then the longest silent. Consumers stay.
fn displaced(holders: impl Iterator<Item = Holder> + Clone) -> Option<usize> {
    let mut of_process: HashMap<u64, usize> = HashMap::new();
    for holder in holders.clone().filter(|holder| !holder.consumes) {
        *of_process.entry(holder.process).or_default() += 1;
    }
    let order = |holder: &Holder| {
        let many = Reverse(of_process.get(&holder.process));
        (holder.trusted, many, !holder.asks, holder.heard)
    };
    let leaving = holders.enumerate().filter(|(_, holder)| !holder.consumes);
    leaving.min_by_key(|(_, holder)| order(holder)).map(|(at, _)| at)
}

/// Checks that there is room for a consumer of a user with so many bytes of memory of its own.
///
/// # Errors
///
/// When there is none; the text names the limit.
pub(crate) fn room_for_consumer(
    holders: impl Iterator<Item = Holder>,
    user: u32,
    trusted: bool,
    memory: u64,
) -> Result<(), String> {
    if trusted {
        return Ok(());
    }
    let of_user = holders.filter(|holder| holder.consumes && holder.user == user);
    let (count, bytes) =
        of_user.fold((0, 0), |(count, bytes), holder| (count + 1, bytes + holder.memory));
    if count >= CONSUMERS_MAX {
        return Err(format!("user {user} has {count} programs attached, the most allowed"));
    }
    if bytes + memory > MEMORY_MAX {
        let mib = |bytes: u64| bytes >> 20;
        return Err(format!(
            "programs of user {user} have {} MiB of memory of their own, and {} MiB more would exceed {} MiB",
            mib(bytes),
            mib(memory),
            mib(MEMORY_MAX)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SERVER: u32 = 7;

    fn holder(user: u32, age: u64) -> Holder {
        let heard = Instant::now() + Duration::from_secs(1000 - age);
        let trusted = user == SERVER || user == 0;
        Holder { user, process: 1, trusted, consumes: false, asks: true, heard, memory: 0 }
    }

    fn find(holders: &[Holder], user: u32) -> Room {
        room(holders.iter().copied(), user, user == SERVER || user == 0)
    }

    #[test]
    fn other_users_leave_room_for_the_servers_own() {
        let of_one = vec![holder(1, 0); USER_MAX];
        assert!(matches!(find(&of_one, 1), Room::None(text) if text.contains("user 1")));
        assert_eq!(find(&of_one, 2), Room::Free);
        let of_many: Vec<Holder> =
            (0..OTHERS_MAX as u32).map(|number| holder(1000 + number, 0)).collect();
        assert!(matches!(find(&of_many, 2), Room::None(text) if text.contains("other users")));
        assert_eq!((find(&of_many, SERVER), find(&of_many, 0)), (Room::Free, Room::Free));
    }

    #[test]
    fn the_longest_silent_leaves_for_one_of_the_servers_own() {
        let mut all = vec![holder(SERVER, 1); CONNECTIONS_MAX];
        all[5] = holder(SERVER, 9);
        assert_eq!(find(&all, SERVER), Room::Instead(5));
        assert!(matches!(find(&all, 1), Room::None(_)));
        // A consumer stays, and other users' leave first.
        all[5].consumes = true;
        all[6] = Holder { asks: false, ..holder(SERVER, 10) };
        all[7] = holder(SERVER, 8);
        assert_eq!(find(&all, 0), Room::Instead(7));
        all[8] = Holder { asks: false, ..holder(1, 0) };
        assert_eq!(find(&all, SERVER), Room::Instead(8));
        all.iter_mut().for_each(|holder| holder.consumes = true);
        assert!(matches!(find(&all, SERVER), Room::None(_)));
    }

    #[test]
    fn a_process_with_many_connections_displaces_its_own() {
        let mut all = vec![holder(SERVER, 1); CONNECTIONS_MAX];
        // The longest silent, and two of one process.
        all[3] = Holder { process: 2, ..holder(SERVER, 99) };
        all[4] = Holder { process: 3, asks: false, ..holder(SERVER, 98) };
        all[5] = Holder { process: 3, ..holder(SERVER, 97) };
        all[9] = holder(SERVER, 8);
        assert_eq!(find(&all, SERVER), Room::Instead(9));
        // Connections of other users leave before.
        all[200] = Holder { process: 4, ..holder(1, 0) };
        assert_eq!(find(&all, SERVER), Room::Instead(200));
        // Consumers are none of the many.
        all.iter_mut().filter(|holder| holder.process != 3).for_each(|one| one.consumes = true);
        assert_eq!(find(&all, SERVER), Room::Instead(5));
    }

    #[test]
    fn another_user_has_so_many_consumers_and_so_much_memory() {
        let of = |count: usize, memory| {
            let consumer = Holder { consumes: true, memory, ..holder(1, 0) };
            let all = std::iter::repeat_n(consumer, count).chain([holder(1, 0), holder(2, 0)]);
            move |user, memory| room_for_consumer(all.clone(), user, user == SERVER, memory)
        };
        let few = of(2, MEMORY_MAX / 4);
        assert!(few(1, MEMORY_MAX / 2).is_ok() && few(1, MEMORY_MAX / 2 + 1).is_err());
        assert!(few(2, MEMORY_MAX).is_ok() && few(SERVER, u64::MAX).is_ok());
        let many = of(CONSUMERS_MAX, 0);
        assert!(many(1, 0).is_err() && many(2, 0).is_ok());
    }
}

//! Limits of a broker's connections, by user.
//!
//! Connections of users other than the server's and root are limited, together and for each user, so that
//! places are left for the server's user and root. When all places are taken, a new connection of these two
//! displaces one that is not a consumer: an administrator's program can always connect.

use std::time::Instant;

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
pub(crate) fn room(holders: impl Iterator<Item = Holder>, user: u32, trusted: bool) -> Room {
    let (mut all, mut others, mut of_user) = (0, 0, 0);
    let mut silent: Option<(usize, Holder)> = None;
    let order = |holder: &Holder| (holder.trusted, !holder.asks, holder.heard);
    for (at, holder) in holders.enumerate() {
        all += 1;
        others += usize::from(!holder.trusted);
        of_user += usize::from(holder.user == user);
        let is_first = silent.is_none_or(|(_, before)| order(&holder) < order(&before));
        if !holder.consumes && is_first {
            silent = Some((at, holder));
        }
    }
    if !trusted && of_user >= USER_MAX {
        return Room::None(format!("user {user} has {of_user} connections, the most allowed"));
    }
    if !trusted && others >= OTHERS_MAX {
        return Room::None(format!("other users have {others} connections, the most allowed"));
    }
    match silent {
        _ if all < CONNECTIONS_MAX => Room::Free,
        Some((at, _)) if trusted => Room::Instead(at),
        _ => Room::None(format!("there are {all} connections, the most allowed")),
    }
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
        Holder { user, trusted, consumes: false, asks: true, heard, memory: 0 }
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

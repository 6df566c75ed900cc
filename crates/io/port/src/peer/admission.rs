//! Limits of a listener's sessions that are not established, by user.
//!
//! A session holds a place until its negotiation has succeeded, and again from its end until its
//! descriptors are closed, which a peer can delay. Each user has a part of the places, and some are
//! reserved for root and the user of this process.

use std::{
    collections::HashMap,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{net::sockopt::socket_peercred, process::geteuid};

/// Places of all users together.
pub(crate) const PLACES: usize = 64;
/// Places of each user that is neither root nor the user of this process.
const EACH: usize = 16;
/// Places reserved for root and the user of this process.
const KEPT: usize = 16;

/// The places of a listener.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    used: Mutex<HashMap<u32, usize>>,
}

/// A place of a session, which counts except while the session is established.
#[derive(Debug)]
pub(crate) struct AdmissionSlot {
    admission: Arc<Admission>,
    user: u32,
    counted: AtomicBool,
}

impl Admission {
    fn used(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for the user at the other end of a socket; `Err` names the limit.
    pub(crate) fn admit(
        self: &Arc<Self>,
        socket: impl AsFd,
    ) -> Result<AdmissionSlot, &'static str> {
        let user = socket_peercred(socket).map_err(|_| "unknown user")?.uid.as_raw();
        self.admit_user(user)
    }

    fn admit_user(self: &Arc<Self>, user: u32) -> Result<AdmissionSlot, &'static str> {
        let is_ours = |user: u32| user == 0 || user == geteuid().as_raw();
        let mut used = self.used();
        let all: usize = used.values().sum();
        let others: usize =
            used.iter().filter(|(user, _)| !is_ours(**user)).map(|(_, count)| count).sum();
        let own = used.get(&user).copied().unwrap_or(0);
        if !is_ours(user) && own >= EACH {
            return Err("too many clients of this user negotiate");
        }
        if all >= PLACES || (!is_ours(user) && others >= PLACES - KEPT) {
            return Err("too many clients negotiate");
        }
        *used.entry(user).or_default() += 1;
        Ok(AdmissionSlot { admission: Arc::clone(self), user, counted: AtomicBool::new(true) })
    }
}

impl AdmissionSlot {
    /// The user that connected.
    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// The session is established.
    pub(crate) fn establish(&self) {
        if self.counted.swap(false, Ordering::Relaxed) {
            let mut used = self.admission.used();
            if let Some(count) = used.get_mut(&self.user) {
                *count -= 1;
                if *count == 0 {
                    used.remove(&self.user);
                }
            }
        }
    }

    /// The session has ended; its descriptors may still be open.
    pub(crate) fn end(&self) {
        if !self.counted.swap(true, Ordering::Relaxed) {
            *self.admission.used().entry(self.user).or_default() += 1;
        }
    }
}

impl Drop for AdmissionSlot {
    fn drop(&mut self) {
        self.establish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users that are neither root nor, most likely, that of the tests.
    const OTHERS: [u32; 5] = [61_001, 61_002, 61_003, 61_004, 61_005];

    #[test]
    fn no_user_takes_the_places_of_others_and_some_are_kept() {
        let admission = Arc::new(Admission::default());
        let mut places = Vec::new();
        let admit = |user| admission.admit_user(user);
        for user in &OTHERS[..3] {
            places.extend((0..EACH).map(|_| admit(*user).unwrap()));
            assert!(admit(*user).unwrap_err().contains("this user"));
        }
        assert!(admit(OTHERS[3]).is_err());
        let kept: Vec<AdmissionSlot> = (0..KEPT).map(|_| admit(0).unwrap()).collect();
        assert!(admit(0).is_err());
        drop(kept);
        // An established session holds no place, and holds one again from its end until it is dropped.
        places[0].establish();
        let another = admit(OTHERS[3]).unwrap();
        places[0].end();
        assert!(admit(OTHERS[4]).is_err());
        drop((another, places));
        assert!(admission.used().is_empty());
    }
}

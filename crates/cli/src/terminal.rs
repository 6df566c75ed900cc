//! Abilities of the terminal of standard error, and wishes of its user.

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal},
};

/// Returns true if lines on standard error can be written anew: it is a terminal, and not one that
/// says that it can only print (`TERM=dumb`).
pub(crate) fn moves() -> bool {
    io::stderr().is_terminal() && can_move(env::var_os("TERM"))
}

/// Returns true if text on standard error is in colours: where lines can be written anew, unless
/// `NO_COLOR` is set, to anything (<https://no-color.org>).
pub(crate) fn colours() -> bool {
    moves() && may_colour(env::var_os("NO_COLOR"))
}

fn can_move(term: Option<OsString>) -> bool {
    term.is_none_or(|term| term != "dumb")
}

fn may_colour(no_color: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_heard() {
        assert!(can_move(None) && can_move(Some("xterm".into())) && !can_move(Some("dumb".into())));
        assert!(may_colour(None) && may_colour(Some("".into())));
        assert!(!may_colour(Some("1".into())) && !may_colour(Some("0".into())));
    }
}

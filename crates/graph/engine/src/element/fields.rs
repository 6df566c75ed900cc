//! Arguments and handlers that follow from the fields of a struct.

use super::{Class, Element, ElementBuilder, Scope, value::Value};
use crate::{arguments::Arg, error::HandlerError, handler::Handler};

/// Configuration and handlers of an element: derived from the struct that holds them, so that each
/// is declared once.
///
/// ```
/// # use linerate_graph::Arguments;
/// #[derive(Arguments)]
/// struct Limit {
///     /// most packets
///     #[arg(kind = "packets")]
///     #[handler(value)]
///     limit: u32,
///     /// whether anything is done
///     #[arg(keyword, default = true)]
///     active: bool,
///     /// packets that have passed
///     #[handler(count)]
///     count: u64,
/// }
/// assert_eq!((Limit::ARGS[0].name, Limit::ARGS[0].help), ("LIMIT", "most packets"));
/// assert_eq!((Limit::ARGS[1].kind, Limit::ARGS[1].default), ("bool", "true"));
/// assert_eq!(Limit::HANDLERS[1].name, "count");
/// ```
///
/// # Fields
///
/// A documentation comment is the line that people read about the argument and the handler.
///
/// `#[arg(..)]` makes an argument of a field. It must be given, by its place or by its
/// keyword, unless it is `optional` or a `keyword` (`required, keyword` is possible).
/// The field's type, a [`Value`], decides the meaning of a text; an `Option` of one is `None` where
/// it is not given. Further:
///
/// - `default = VALUE`: the value when it is not given; a text is read as if it had been.
/// - `shown = "TEXT"`: the default shown to people where the value does not say it.
/// - `stand_in = VALUE`: the value in place of one that must be given and is wrong, instead of
///   the type's `Default`.
/// - `kind = "TEXT"`: the kind of value shown to people, in the place of [`Value::KIND`].
/// - `name = "NAME"`: its keyword, in the place of the field's name in upper case.
/// - `help = "TEXT"`: the line about it, in the place of the documentation comment.
/// - `late`: see [`Arg::late`].
/// - `with = FUNCTION`: called with the [`ElementBuilder`] and the name instead of reading a value.
///
/// `#[handler(..)]` makes a handler of a field: a `value`, read and written, of any type that an
/// argument can have (a [`Value`], or an `Option` of one, for which an empty text is none); one that is
/// `read`, of a type that is `Display`; or a `count`, summed over replicas, which is `kept` if it goes
/// over to the element that takes this one's place. `name` and `help` as above.
///
/// ```compile_fail,E0277
/// # use linerate_graph::Arguments;
/// #[derive(Arguments)]
/// struct Wrong {
///     /// a thread can be no argument, and cannot be written to a handler
///     #[handler(value)]
///     #[init(std::thread::current())]
///     owner: std::thread::Thread,
/// }
/// ```
///
/// `#[group]` says that the field's type holds more arguments and handlers.
///
/// `#[init(VALUE)]` gives the initial value of any other field, if not its `Default`; `make` is the
/// [`ElementBuilder`].
///
/// # The struct
///
/// `#[arguments(check = FUNCTION)]` names a function that is called with the struct and the
/// [`ElementBuilder`] when all arguments have been read, to look at them together;
/// `#[arguments(handlers = [..])]` lists more handlers, which the element reads and writes
/// itself.
#[diagnostic::on_unimplemented(
    message = "nothing says what arguments and handlers `{Self}` has",
    note = "`#[derive(Arguments)]` on the struct does, also where it has none"
)]
pub trait Arguments: Sized {
    /// The source file of the struct, for [`Class::file`].
    const FILE: &'static str;
    /// The arguments, for [`Class::args`].
    const ARGS: &'static [Arg];
    /// The handlers, for [`Class::handlers`].
    const HANDLERS: &'static [Handler];

    /// Reads all arguments.
    fn from_args(make: &mut ElementBuilder<'_>) -> Self;

    /// Reads a handler that is a field, in the scope of its element ([`Context::scope`](crate::Context::scope)).
    ///
    /// # Errors
    ///
    /// When none is called so.
    fn read_field(&self, scope: &Scope<'_>, handler: &str) -> Result<String, HandlerError>;

    /// Writes a handler that is a field, in the scope of its element ([`Context::scope`](crate::Context::scope)).
    ///
    /// # Errors
    ///
    /// When none is called so, or the value is refused.
    fn write_field(
        &mut self,
        scope: &Scope<'_>,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError>;

    /// Takes over the counts that are kept, for [`Element::take_state`].
    fn take_counts(&mut self, old: &mut Self);
}

impl Class {
    /// The arguments, handlers and constructor of such an element, as a class. To be completed, as
    /// [`Class::here`] is.
    ///
    /// The element's [`Element::read`] and [`Element::write`] leave handlers that are fields
    /// to [`Arguments::read_field`] and [`Arguments::write_field`].
    #[track_caller]
    pub const fn for_element<E: Element + Arguments>() -> Class {
        Class {
            args: E::ARGS,
            handlers: E::HANDLERS,
            make: |make| Box::new(E::from_args(make)),
            ..Class::here()
        }
    }
}

impl ElementBuilder<'_> {
    /// Returns the value of an argument, or of the default text written in a declaration.
    ///
    /// # Panics
    ///
    /// When that text is no such value.
    pub fn or_text<T: Value>(&mut self, name: &str, default: &str) -> T {
        match self.get(name) {
            Some(value) => value,
            None => self
                .parse(default)
                .unwrap_or_else(|error| panic!("the default of {name}, {default}: {error}")),
        }
    }
}

/// Functions that `#[derive(Arguments)]` writes calls of.
pub mod derive {
    use super::Arguments;
    use crate::{arguments::Arg, handler::Handler};

    /// Returns the number of items in all parts.
    pub const fn length<T>(parts: &[&[T]]) -> usize {
        let (mut length, mut part) = (0, 0);
        while part < parts.len() {
            length += parts[part].len();
            part += 1;
        }
        length
    }

    macro_rules! join {
        ($name:ident, $type:ty, $blank:expr) => {
            /// The parts one behind the other.
            pub const fn $name<const LENGTH: usize>(parts: &[&[$type]]) -> [$type; LENGTH] {
                let mut all = [$blank; LENGTH];
                let (mut part, mut length) = (0, 0);
                while part < parts.len() {
                    let mut at = 0;
                    while at < parts[part].len() {
                        all[length] = parts[part][at];
                        length += 1;
                        at += 1;
                    }
                    part += 1;
                }
                all
            }
        };
    }

    join!(args, Arg, Arg::required("", "", ""));
    join!(handlers, Handler, Handler::read("", ""));

    /// Returns true if such a struct has a handler of that name.
    pub fn has<T: Arguments>(handler: &str) -> bool {
        T::HANDLERS.iter().any(|found| found.name == handler)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        Arguments, ElementRef, Filename, Need, Scope, element::plan::tests::plan, handler::listing,
        names::Names,
    };

    #[derive(Debug, Arguments)]
    struct Inner {
        /// the colour
        #[arg(kind = "0 to 255")]
        #[handler(value)]
        color: u8,
    }

    #[derive(Debug, Arguments)]
    #[arguments(handlers = [crate::Handler::button("reset", "counts from 0")])]
    struct Outer {
        /// bytes
        /// of a packet
        #[arg(name = "LEN", kind = "bytes", stand_in = 1)]
        length: u32,
        #[group]
        inner: Inner,
        /// what to add
        #[arg(optional, kind = "bytes", default = -1)]
        #[handler(read, name = "plus", help = "what is added")]
        add: i32,
        /// a flag
        #[arg(keyword, default = true, late)]
        flag: bool,
        /// an address
        #[arg(keyword, shown = "none")]
        address: Option<std::net::Ipv4Addr>,
        /// a key
        #[arg(required, keyword, kind = "number")]
        key: u32,
        /// packets
        #[handler(count, kept)]
        count: u64,
        #[init(3)]
        state: u32,
    }

    #[test]
    fn declarations_follow_from_fields() {
        let args: Vec<_> = Outer::ARGS
            .iter()
            .map(|arg| (arg.name, arg.kind, arg.default, arg.help, arg.late))
            .collect();
        assert_eq!(
            args,
            [
                ("LEN", "bytes", "", "bytes of a packet", false),
                ("COLOR", "0 to 255", "", "the colour", false),
                ("ADD", "bytes", "-1", "what to add", false),
                ("FLAG", "bool", "true", "a flag", true),
                ("ADDRESS", "IP address", "none", "an address", false),
                ("KEY", "number", "", "a key", false),
            ]
        );
        let needs: Vec<_> = Outer::ARGS.iter().map(|arg| arg.need).collect();
        assert_eq!(needs[..2], [Need::Positional { required: true }; 2]);
        assert_eq!(needs[2], Need::Positional { required: false });
        assert_eq!(needs[3..5], [Need::Keyword { required: false }; 2]);
        assert_eq!(needs[5], Need::Keyword { required: true });
        let handlers = Outer::HANDLERS.iter().map(|handler| (handler.name, handler));
        assert_eq!(listing(handlers), "reset\twb\ncount\tr\nplus\tr\ncolor\trw\n");
    }

    #[test]
    fn fields_are_read_and_kept_counts_go_over() {
        let outer = |count| Outer {
            length: 1,
            inner: Inner { color: 9 },
            add: -1,
            flag: true,
            address: None,
            key: 0,
            count,
            state: 3,
        };
        let (mut new, mut old) = (outer(1), outer(4));
        new.take_counts(&mut old);
        let plan = plan("a :: Idle");
        let scope = Scope { plan: &plan, names: &Names::default(), name: "a" };
        let read = |name| new.read_field(&scope, name).ok();
        assert_eq!(["color", "plus", "count"].map(read), ["9", "-1", "5"].map(|t| Some(t.into())));
        assert!(read("reset").is_none() && old.count == 0);
        let rest = (new.length, new.flag, new.address, new.key, new.state);
        assert_eq!(rest, (1, true, None, 0, 3));
    }

    #[derive(Debug, Arguments)]
    struct Settings {
        /// a port
        #[arg(kind = "port")]
        #[handler(value)]
        port: u16,
        /// how long
        #[arg(keyword, kind = "seconds", default = Duration::ZERO, shown = "0")]
        #[handler(value)]
        timeout: Duration,
        /// another element
        #[arg(keyword, kind = "element", shown = "none")]
        #[handler(value)]
        other: Option<ElementRef>,
        /// a file
        #[arg(keyword, kind = "file", default = Filename::default(), shown = "none")]
        #[handler(value)]
        file: Filename,
    }

    /// Whatever can be an argument can be a handler that is read and written.
    #[test]
    fn fields_of_every_type_are_written() {
        let plan = plan("a :: Idle; b :: Idle");
        let scope = Scope { plan: &plan, names: &Names::default(), name: "a" };
        let mut settings = Settings {
            port: 1,
            timeout: Duration::ZERO,
            other: None,
            file: Filename("/dev/null".into()),
        };
        for (handler, before, written, after) in [
            ("port", "1", "0x50", "80"),
            ("timeout", "0.000000", "2min", "120.000000"),
            ("other", "", "b", "b"),
            ("other", "b", "", ""),
            ("file", "/dev/null", "'/tmp/a b'", "\"/tmp/a b\""),
        ] {
            assert_eq!(settings.read_field(&scope, handler).as_deref(), Ok(before));
            settings.write_field(&scope, handler, written).unwrap();
            assert_eq!(settings.read_field(&scope, handler).as_deref(), Ok(after));
        }
        for (handler, refusal) in
            [("port", "expected integer"), ("other", "does not name an element")]
        {
            let error = settings.write_field(&scope, handler, "-1").unwrap_err();
            assert_eq!(error.to_string(), refusal);
        }
        assert_eq!(settings.port, 80);
    }
}

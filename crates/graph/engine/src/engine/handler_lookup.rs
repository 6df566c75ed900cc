//! Handlers by name, as scripts and clients of control sockets write them.

use crate::{
    element::{Context, value::HandlerRef},
    error::HandlerError,
    handler::Handler,
    lang::config::string,
};

impl Context {
    /// The handler that `text` means to the element at work: `element.name`
    /// with the element looked for in its compound and outwards, the name of a
    /// handler of its own, or that of a global one. Whether an element has such
    /// a handler is not checked.
    ///
    /// # Errors
    ///
    /// When the text is no name or no element has it.
    pub fn find_handler(&self, text: &str) -> Result<HandlerRef, HandlerError> {
        let syntax = || HandlerError::refused("syntax error");
        let bytes = string(text).filter(|bytes| !bytes.is_empty()).ok_or_else(syntax)?;
        let text = String::from_utf8_lossy(&bytes);
        let global = |name: &str| HandlerRef { element: None, handler: name.into() };
        let dot = text.find('.');
        if let Some(name) = text.strip_prefix('.') {
            return Ok(global(name));
        }
        if let Some((element, name)) = text.split_once('.') {
            if name.is_empty() {
                return Err(syntax());
            }
            if let Some(found) = self.plan.resolve(element, self.name()) {
                return Ok(HandlerRef { element: Some(found), handler: name.into() });
            }
        }
        if self.handler_of(self.node, &text).is_some() {
            return Ok(HandlerRef { element: Some(self.node), handler: text.into() });
        }
        let known = self.globals().any(|handler| handler.name == text);
        match dot {
            Some(dot) if !known => Err(HandlerError::NoElement(text[..dot].into())),
            _ => Ok(global(&text)),
        }
    }

    /// The handler that `text` means, as [`Context::find_handler`] finds it, if
    /// it can be written. Handlers that an element on another worker has
    /// beside those of its class cannot be seen from here.
    ///
    /// # Errors
    ///
    /// When the text is no name, no element has it, or it cannot be written.
    pub fn find_write_handler(&self, text: &str) -> Result<HandlerRef, HandlerError> {
        let found = self.find_handler(text)?;
        self.check_writable(&found)?;
        Ok(found)
    }

    /// Whether a handler can be written, as far as can be seen from here.
    ///
    /// # Errors
    ///
    /// When it cannot, in Click's words.
    pub fn check_writable(&self, handler: &HandlerRef) -> Result<(), HandlerError> {
        match self.handler(handler) {
            Some(found) if found.access.writes() => Ok(()),
            None if handler.element.is_some_and(|at| self.runtimes[at].element.is_none()) => Ok(()),
            _ => {
                let error = HandlerError::missing(&handler.handler);
                let name = self.handler_name(handler);
                Err(HandlerError::refused(error.of_call(&name, true)))
            }
        }
    }

    /// Returns the handler and so its access rights; `None` when there is none.
    pub fn handler(&self, handler: &HandlerRef) -> Option<&'static Handler> {
        match handler.element {
            Some(element) => self.handler_of(element, &handler.handler).map(|found| found.0),
            None => self.globals().find(|global| global.name == handler.handler),
        }
    }

    /// A handler's full name: `element.name`, or `name` for a global one.
    pub fn handler_name(&self, handler: &HandlerRef) -> String {
        match handler.element {
            Some(element) => {
                format!("{}.{}", self.plan.elements[element].name, handler.handler)
            }
            None => handler.handler.clone(),
        }
    }
}

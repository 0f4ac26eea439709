//! A test case: the bytes sent on a separate connection, and the required responses.
//!
//! Cases are data: the groups in `table/` list them, `check_case.rs` runs them, and `differential.rs` uses their bytes
//! as seeds.

/// A named exchange, with the section of the standard that requires the result.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Document and section, as in `RFC 9112, 6.3`.
    pub(crate) section: &'static str,
    pub(crate) send: Vec<u8>,
    pub(crate) pieces: Pieces,
    pub(crate) requirements: Requirements,
}

/// How the bytes are written to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// In one write.
    Whole,
    /// Byte by byte.
    Bytes,
    /// In two writes, once for each split position.
    EachCut,
    /// In one write, followed by a shutdown of the sending direction.
    HalfClosed,
}

/// The required responses, in order.
#[derive(Clone, Debug)]
pub(crate) struct Requirements {
    pub(crate) answers: Vec<Answer>,
    pub(crate) end: End,
}

/// State of the connection after the last response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server accepts another request directly after the sent bytes.
    Open,
    /// The server closes it without further bytes, as announced in the last response.
    Closed,
    /// The server closes it unannounced, since the fault occurred after the response head was sent.
    ClosedUnannounced,
    /// Open, unless the last response announces a close: where the standard permits both.
    AsAnnounced,
}

/// A response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Permitted statuses.
    pub(crate) statuses: Vec<u16>,
    /// Response to a HEAD: fields as for GET, without a body.
    pub(crate) headless: bool,
    pub(crate) checks: Vec<Check>,
}

/// A requirement beyond the status and the rules for every response.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// The field occurs once, with this value.
    Field(&'static str, String),
    /// The field occurs, with a value that begins with this text.
    Begins(&'static str, &'static str),
    /// The field occurs.
    Has(&'static str),
    /// The field does not occur.
    Lacks(&'static str),
    /// The body equals this.
    Body(Vec<u8>),
    /// The body does not contain this.
    BodyWithout(&'static str),
    /// The body is `multipart/byteranges` with these parts, (`Content-Range`, bytes), in this order.
    Parts(Vec<(String, Vec<u8>)>),
}

impl Answer {
    pub(crate) fn field(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.checks.push(Check::Field(name, value.into()));
        self
    }

    pub(crate) fn begins(mut self, name: &'static str, value: &'static str) -> Self {
        self.checks.push(Check::Begins(name, value));
        self
    }

    pub(crate) fn has(mut self, name: &'static str) -> Self {
        self.checks.push(Check::Has(name));
        self
    }

    pub(crate) fn lacks(mut self, name: &'static str) -> Self {
        self.checks.push(Check::Lacks(name));
        self
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.checks.push(Check::Body(body.as_ref().to_vec()));
        self
    }

    pub(crate) fn without(mut self, text: &'static str) -> Self {
        self.checks.push(Check::BodyWithout(text));
        self
    }

    pub(crate) fn headless(mut self) -> Self {
        self.headless = true;
        self
    }
}

/// A response with this status.
pub(crate) fn is(status: u16) -> Answer {
    any(&[status])
}

/// A response with one of these statuses.
pub(crate) fn any(statuses: &[u16]) -> Answer {
    Answer { statuses: statuses.to_vec(), ..Answer::default() }
}

/// These responses, then the connection stays open.
pub(crate) fn open(answers: impl Into<Vec<Answer>>) -> Requirements {
    Requirements { answers: answers.into(), end: End::Open }
}

/// These responses, then the connection is closed.
pub(crate) fn closed(answers: impl Into<Vec<Answer>>) -> Requirements {
    Requirements { answers: answers.into(), end: End::Closed }
}

/// A response, and the connection is open or closed as it announces.
pub(crate) fn as_announced(answer: Answer) -> Requirements {
    Requirements { answers: vec![answer], end: End::AsAnnounced }
}

/// A response with one of these statuses, and the connection is closed.
pub(crate) fn rejected(statuses: &[u16]) -> Requirements {
    closed([any(statuses)])
}

/// A case whose bytes are sent in one write.
pub(crate) fn case(
    name: impl Into<String>,
    section: &'static str,
    send: impl AsRef<[u8]>,
    requirements: Requirements,
) -> Case {
    let (name, send) = (name.into(), send.as_ref().to_vec());
    Case { name, section, send, pieces: Pieces::Whole, requirements }
}

impl Case {
    pub(crate) fn unannounced(mut self) -> Self {
        self.requirements.end = End::ClosedUnannounced;
        self
    }

    pub(crate) fn in_pieces(mut self, pieces: Pieces) -> Self {
        self.pieces = pieces;
        self
    }
}

/// A GET of HTTP/1.1 with `Host` and additional field lines, each ending in CR LF.
pub(crate) fn get(target: &str, lines: &str) -> String {
    request("GET", target, lines)
}

/// Like [`get`], with another method.
pub(crate) fn request(method: &str, target: &str, lines: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

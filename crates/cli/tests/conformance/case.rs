//! One case: what is sent on a connection of its own, and what has to come back.
//!
//! Cases are data: the groups in `table/` list them, `judge.rs` runs them, and `differential/` takes
//! their bytes as seeds.

/// A named exchange, with the section that says what must come of it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The document and section, as in `RFC 9112, 6.3`.
    pub(crate) section: &'static str,
    pub(crate) send: Vec<u8>,
    pub(crate) pieces: Pieces,
    pub(crate) want: Want,
}

/// How the bytes are handed to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// In one write.
    Whole,
    /// Byte by byte.
    Bytes,
    /// In two writes, once for each place where they can be cut.
    EachCut,
    /// In one write, after which nothing more can come: the client's side is shut.
    HalfClosed,
}

/// What has to come back, in order.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) answers: Vec<Answer>,
    pub(crate) end: End,
}

/// What becomes of the connection behind the last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server takes another request, which begins right behind what was sent.
    Open,
    /// The server closes it without another byte, and the last answer has said so.
    Closed,
    /// The same, but the fault came behind the answer's head, which could not tell.
    ClosedUnannounced,
    /// Open, unless the last answer says that it closes: where the document leaves the choice.
    AsAnnounced,
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Any of these.
    pub(crate) statuses: Vec<u16>,
    /// To a HEAD: fields as for GET, and no body.
    pub(crate) headless: bool,
    pub(crate) checks: Vec<Check>,
}

/// What an answer is looked at for, beyond its status and what every answer must keep to.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// The field comes once, with this value.
    Field(&'static str, String),
    /// The field comes, with a value that begins so.
    Begins(&'static str, &'static str),
    /// The field comes.
    Has(&'static str),
    /// The field does not come.
    Lacks(&'static str),
    /// The body is this.
    Body(Vec<u8>),
    /// The body holds none of this.
    BodyWithout(&'static str),
    /// A `multipart/byteranges` body with these parts, (`Content-Range`, bytes), in this order.
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

/// An answer with this status.
pub(crate) fn is(status: u16) -> Answer {
    any(&[status])
}

/// An answer with one of these statuses.
pub(crate) fn any(statuses: &[u16]) -> Answer {
    Answer { statuses: statuses.to_vec(), ..Answer::default() }
}

/// These answers, then the connection goes on.
pub(crate) fn open(answers: impl Into<Vec<Answer>>) -> Want {
    Want { answers: answers.into(), end: End::Open }
}

/// These answers, then the connection is closed.
pub(crate) fn closed(answers: impl Into<Vec<Answer>>) -> Want {
    Want { answers: answers.into(), end: End::Closed }
}

/// One answer, and the connection is open or closed as it says.
pub(crate) fn as_announced(answer: Answer) -> Want {
    Want { answers: vec![answer], end: End::AsAnnounced }
}

/// One answer with one of these statuses, and the connection is closed.
pub(crate) fn rejected(statuses: &[u16]) -> Want {
    closed([any(statuses)])
}

/// A case whose bytes go out in one write.
pub(crate) fn case(
    name: impl Into<String>,
    section: &'static str,
    send: impl AsRef<[u8]>,
    want: Want,
) -> Case {
    let (name, send) = (name.into(), send.as_ref().to_vec());
    Case { name, section, send, pieces: Pieces::Whole, want }
}

impl Case {
    pub(crate) fn unannounced(mut self) -> Self {
        self.want.end = End::ClosedUnannounced;
        self
    }

    pub(crate) fn in_pieces(mut self, pieces: Pieces) -> Self {
        self.pieces = pieces;
        self
    }
}

/// A GET of 1.1 with its `Host`, and more field lines, each ending in CR LF.
pub(crate) fn get(target: &str, lines: &str) -> String {
    request("GET", target, lines)
}

/// As [`get`], with another method.
pub(crate) fn request(method: &str, target: &str, lines: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

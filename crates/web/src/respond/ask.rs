//! A request routed to a host.

use std::sync::Arc;

use phalanx_http::{Head, Reply, Request, Status};

use crate::clock;
use crate::respond::writer::ResponseWriter;
use crate::site::rules::Page;
use crate::site::{Host, HostIndex, Site};
use crate::stages::Stages;

/// A request routed to a host, with its response options.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) stages: Stages,
    pub(super) site: &'a Arc<Site>,
    pub(super) host: HostIndex,
    pub(super) request: &'a Request<'a>,
    pub(super) reply: Reply,
    pub(super) caching: Caching,
}

/// Properties of a response that affect caching and are not in the file's entry. Stored in one byte, because a
/// connection reserves memory for several requests.
#[derive(Clone, Copy)]
pub(super) struct Caching(u8);

impl Caching {
    const PRIVATE: u8 = 1;
    const BY_ACCEPT: u8 = 2;

    /// Whether a rule protects the requested path, so that shared caches must not store the response.
    pub(super) fn is_private(self) -> bool {
        self.0 & Self::PRIVATE != 0
    }

    /// The same without [`is_private`](Self::is_private).
    pub(super) fn shared(self) -> Self {
        Self(self.0 & !Self::PRIVATE)
    }

    /// The same for a response that depends on `Accept`.
    pub(super) fn by_accept(self) -> Self {
        Self(self.0 | Self::BY_ACCEPT)
    }

    fn depends_on_accept(self) -> bool {
        self.0 & Self::BY_ACCEPT != 0
    }
}

impl<'a> Ask<'a> {
    /// Routes a request to the host.
    pub(super) fn new(
        stages: Stages,
        site: &'a Arc<Site>,
        host: HostIndex,
        request: &'a Request<'a>,
        reply: Reply,
    ) -> Self {
        let is_private = site[host].rules.protects_request(request.path);
        let caching = Caching(if is_private { Caching::PRIVATE } else { 0 });
        Self { stages, site, host, request, reply, caching }
    }

    /// The host.
    pub(super) fn host(self) -> &'a Host {
        &self.site[self.host]
    }

    /// Starts the head of a response that is not a file, with all of the host's fields.
    pub(super) fn head(self, out: &mut ResponseWriter, status: Status) -> Head<'_> {
        let page = if status.code() >= 400 { Page::Error } else { Page::Other };
        self.page_head(out, status, page)
    }

    /// Like [`head`](Self::head), for the response to a preflight request, without the fields that only a client with a
    /// password may see.
    pub(super) fn preflight_head(self, out: &mut ResponseWriter) -> Head<'_> {
        self.page_head(out, Status::NoContent, Page::Preflight)
    }

    fn page_head(self, out: &mut ResponseWriter, status: Status, page: Page) -> Head<'_> {
        let rules = &self.host().rules;
        let fields = rules.page_fields(self.request.path, page);
        self.file_head(out, status).fields(fields.as_ref().unwrap_or(&rules.security).all())
    }

    /// Starts the head of a file's response. The file's entry contains the host's fields, except those that depend on
    /// the request or on TLS.
    #[inline]
    pub(super) fn file_head(self, out: &mut ResponseWriter, status: Status) -> Head<'_> {
        let (rules, is_tls) = (&self.host().rules, out.is_tls());
        let alt_svc = self.site.alt_svc().field(out.alt_svc);
        let mut head = clock::head(&mut out.buffer, status, self.reply);
        if let Some(cors) = &rules.cors {
            head = cors.fields(self.request, head);
        }
        if self.caching.is_private() {
            head = head.field("Cache-Control", b"private");
        }
        if self.caching.depends_on_accept() {
            head = head.field("Vary", b"Accept");
        }
        if !is_tls {
            return head;
        }
        let head = head.fields(rules.tls.all());
        match alt_svc {
            Some(field) => head.fields(field.all()),
            None => head,
        }
    }
}

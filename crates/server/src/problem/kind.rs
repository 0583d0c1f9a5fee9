//! The kinds of problem: their codes are promises to programs.

use http::StatusCode;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

macro_rules! kinds {
    ($($name:ident, $status:ident, $code:literal, $title:literal;)*) => {
        /// What kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $(#[doc = $title] $name,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What kind of problem, in words.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }
        }
    };
}

kinds! {
    Unauthorized, UNAUTHORIZED, "unauthorized", "A valid token is needed";
    Forbidden, FORBIDDEN, "forbidden", "The token's scope does not allow this";
    PlaintextRefused, FORBIDDEN, "plaintext-refused", "Private keys are not sent over plain HTTP";
    WrongEdge, FORBIDDEN, "wrong-edge", "The token is for another edge";
    WrongGroup, FORBIDDEN, "wrong-group", "The token is for another group of edges";
    NotFound, NOT_FOUND, "not-found", "There is no such thing";
    NoCertificate, NOT_FOUND, "no-certificate", "The domain has no certificate yet";
    EdgeUnknown, NOT_FOUND, "edge-unknown", "The edge must register first";
    MethodNotAllowed, METHOD_NOT_ALLOWED, "method-not-allowed", "The method does not fit this path";
    NameInUse, CONFLICT, "name-in-use", "The name is in use";
    ResourceInUse, CONFLICT, "resource-in-use", "The resource is in use";
    OrchestrationMismatch, CONFLICT, "orchestration-mismatch", "The orchestration id was used for another request";
    InUse, CONFLICT, "in-use", "A domain lives on this claim";
    BeingRemoved, CONFLICT, "being-removed", "The domain is being removed";
    LastAdminToken, CONFLICT, "last-admin-token", "This is the last admin token";
    RotationRunning, CONFLICT, "rotation-running", "A key rotation is under way";
    NoCa, CONFLICT, "no-ca", "This replica asks no CA";
    NotNow, CONFLICT, "not-now", "The domain is on its way to another certificate";
    NoEarlierCertificate, CONFLICT, "no-earlier-certificate", "No earlier certificate is still valid";
    AccountExists, CONFLICT, "account-exists", "There is an account at that CA already";
    LeaseNotHeld, CONFLICT, "lease-not-held", "Nobody holds the lease";
    Gone, GONE, "gone", "The domain was removed";
    Removed, GONE, "removed", "The domain of this request was removed";
    RevisionGone, GONE, "revision-gone", "The revision is not kept any more";
    VersionMismatch, PRECONDITION_FAILED, "version-mismatch", "The domain changed meanwhile";
    PayloadTooLarge, PAYLOAD_TOO_LARGE, "payload-too-large", "The body is too large";
    UnsupportedMediaType, UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body is not JSON";
    MalformedJson, UNPROCESSABLE_ENTITY, "malformed-json", "The body is not well-formed JSON";
    InvalidBody, UNPROCESSABLE_ENTITY, "invalid-body", "The body does not have the shape of this request";
    UnknownField, UNPROCESSABLE_ENTITY, "unknown-field", "The body has a field that this request does not know";
    InvalidField, UNPROCESSABLE_ENTITY, "invalid-field", "A field has a value that cannot be taken";
    InvalidName, UNPROCESSABLE_ENTITY, "invalid-name", "The name cannot be a custom domain";
    WildcardUnsupported, UNPROCESSABLE_ENTITY, "wildcard-unsupported", "Wildcards are not supported";
    InvalidTarget, UNPROCESSABLE_ENTITY, "invalid-target", "The target cannot be a CNAME's value";
    InvalidCertificate, UNPROCESSABLE_ENTITY, "invalid-certificate", "The certificate cannot be imported";
    InvalidKey, UNPROCESSABLE_ENTITY, "invalid-key", "The key cannot be an account's";
    InvalidPath, UNPROCESSABLE_ENTITY, "invalid-path", "The path cannot be read";
    InvalidParameter, UNPROCESSABLE_ENTITY, "invalid-parameter", "A query parameter has a value that cannot be taken";
    UnknownParameter, UNPROCESSABLE_ENTITY, "unknown-parameter", "The query has a parameter that this request does not know";
    InvalidCursor, UNPROCESSABLE_ENTITY, "invalid-cursor", "The cursor is none of this list";
    TooManyItems, UNPROCESSABLE_ENTITY, "too-many-items", "The batch has too many items";
    SameDirectory, UNPROCESSABLE_ENTITY, "same-directory", "The certificates already come from there";
    PreconditionRequired, PRECONDITION_REQUIRED, "precondition-required", "If-Match is needed";
    SeeLeader, TEMPORARY_REDIRECT, "see-leader", "Writes are taken by the leader alone";
    NotMaster, MISDIRECTED_REQUEST, "not-master", "Writes are taken by the leader alone";
    StaleTerm, MISDIRECTED_REQUEST, "stale-term", "This replica does not lead in that term";
    Internal, INTERNAL_SERVER_ERROR, "internal", "Something is wrong with this server";
    CertificateDamaged, INTERNAL_SERVER_ERROR, "certificate-damaged", "What is stored of the certificate is damaged";
    CaFailed, BAD_GATEWAY, "ca-failed", "The CA did not do it";
    AnswerLost, BAD_GATEWAY, "answer-lost", "The leader's answer did not come";
    ForwardInsecure, BAD_GATEWAY, "forward-insecure", "Tokens are not sent to the leader over plain HTTP";
    NoLeader, SERVICE_UNAVAILABLE, "no-leader", "No replica leads at this moment";
    LeaderUnreachable, SERVICE_UNAVAILABLE, "leader-unreachable", "The leader cannot be reached";
    TryAgain, SERVICE_UNAVAILABLE, "try-again", "The same request again will be answered";
    DatabaseUnavailable, SERVICE_UNAVAILABLE, "database-unavailable", "The database does not answer";
    LeasesUnavailable, SERVICE_UNAVAILABLE, "leases-unavailable", "The lease store does not answer";
    TimedOut, SERVICE_UNAVAILABLE, "timed-out", "The request took too long";
    Draining, SERVICE_UNAVAILABLE, "draining", "This replica is shutting down";
    TooManyStreams, SERVICE_UNAVAILABLE, "too-many-streams", "Too many event streams are open";
    TooManyPolls, SERVICE_UNAVAILABLE, "too-many-polls", "Too many edges wait at this replica";
}

/// The schema of a code: the closed list.
pub(super) fn codes() -> Object {
    let codes = Kind::ALL.iter().map(|kind| kind.code());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes)).build()
}

//! Lists: `limit` and `cursor` in, `items` and `next_cursor` out. A cursor is opaque to clients.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_store::{Page, Paged};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::query::{self, Params};
use crate::{Kind, Problem, field};

const DEFAULT: u32 = 100;
const LARGEST: u32 = 1_000;

/// Takes `limit` and `cursor`.
pub(crate) fn take(params: &mut Params) -> Result<Page, Problem> {
    let limit = params.text("limit")?.map_or(Ok(DEFAULT), |text| limit(&text))?;
    let after = params.text("cursor")?.map(|text| decode(&text)).transpose()?;
    Ok(Page { limit, after })
}

fn limit(text: &str) -> Result<u32, Problem> {
    text.parse().ok().filter(|limit| (1..=LARGEST).contains(limit)).ok_or_else(|| {
        let text = field::shown(text);
        query::invalid("limit", format!("`limit` is 1 to {LARGEST}, not `{text}`."))
    })
}

/// A cursor as clients see it.
pub(crate) fn encode(cursor: String) -> String {
    URL_SAFE_NO_PAD.encode(cursor)
}

fn decode(text: &str) -> Result<String, Problem> {
    URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|cursor| !cursor.contains(char::is_control))
        .ok_or_else(|| {
            let text = field::shown(text);
            let detail = format!(
                "`{text}` is no cursor of this list; use `next_cursor` of the page before."
            );
            Problem::new(Kind::InvalidCursor, detail)
        })
}

/// The parameters of a list, for the document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by the document alone; `take` reads the query")]
pub(crate) struct PageParams {
    /// At most this many.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A part of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct List<T> {
    /// The items.
    items: Vec<T>,
    /// Where the next part begins; null on the last.
    next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A page of the store's, its items shown by `view`.
    pub(crate) fn of<S>(page: Paged<S>, view: impl FnMut(S) -> T) -> Self {
        let next_cursor = page.next.map(encode);
        Self { items: page.items.into_iter().map(view).collect(), next_cursor }
    }

    /// All there is.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}

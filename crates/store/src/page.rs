//! Keyset paging: no offset, so the last page costs what the first does.

use holdfast_model::Hostname;

use crate::{Error, Result};

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// At most this many.
    pub limit: u32,
    /// What came after this; the cursor of the page before.
    pub after: Option<String>,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paged<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; none on the last.
    pub next: Option<String>,
}

impl Page {
    fn limit(&self) -> usize {
        usize::try_from(self.limit.max(1)).unwrap_or(usize::MAX)
    }

    /// One row more than asked for: it tells whether there is a next page.
    pub(crate) fn rows(&self) -> i64 {
        i64::from(self.limit.max(1)) + 1
    }
}

/// Makes a page of rows that were asked for by [`Page::rows`]. `read` gives the item, if it is one for us, and its cursor.
pub(crate) fn paged<R, T>(
    rows: &[R],
    page: &Page,
    read: impl Fn(&R) -> Result<(Option<T>, String)>,
) -> Result<Paged<T>> {
    let mut items = Vec::with_capacity(rows.len().min(page.limit()));
    let mut last = None;
    for row in rows.iter().take(page.limit()) {
        let (item, cursor) = read(row)?;
        items.extend(item);
        last = Some(cursor);
    }
    Ok(Paged { items, next: last.filter(|_| rows.len() > page.limit()) })
}

/// The cursor of a list by name.
pub(crate) fn name_after(page: &Page) -> Result<Option<String>> {
    let Some(after) = &page.after else { return Ok(None) };
    match Hostname::parse_host(after) {
        Ok(name) if name.as_str() == after => Ok(Some(after.clone())),
        _ => Err(Error::BadCursor(after.clone())),
    }
}

/// The cursor of a list by number.
pub(crate) fn number_after(page: &Page) -> Result<i64> {
    let Some(after) = &page.after else { return Ok(0) };
    let number = after.parse::<i64>().ok();
    number
        .filter(|number| *number >= 0 && number.to_string() == *after)
        .ok_or_else(|| Error::BadCursor(after.clone()))
}

/// The cursor of a list by number, newest first.
pub(crate) fn number_before(page: &Page) -> Result<i64> {
    page.after.as_ref().map_or(Ok(i64::MAX), |_| number_after(page))
}

/// Between which names (neither included) all those lie that begin so; none where no name can begin so.
pub(crate) fn prefix_range(prefix: Option<&str>) -> Option<(String, String)> {
    // DEL lies behind, and NUL would lie before, everything that a name is made of; no name is empty.
    let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else {
        return Some((String::new(), "\u{7f}".to_owned()));
    };
    let prefix = prefix.to_lowercase();
    if !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    // Just before the prefix itself, which is a name that begins so: its last byte less one, then anything.
    let mut before = prefix.clone();
    let last = before.pop()?;
    let lower = char::from_u32(u32::from(last).checked_sub(1)?)?;
    before.push(lower);
    before.push('\u{7f}');
    Some((before, format!("{prefix}\u{7f}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(after: &str) -> Page {
        Page { limit: 1, after: Some(after.to_owned()) }
    }

    proptest! {
        #[test]
        fn a_range_holds_exactly_the_names_that_begin_so(
            prefix in "[a-c.-]{1,3}",
            name in "[a-c.-]{1,5}",
        ) {
            let (from, to) = prefix_range(Some(&prefix)).unwrap();
            prop_assert_eq!(from < name && name < to, name.starts_with(&prefix), "{} {}", from, to);
        }

        #[test]
        fn any_prefix_is_a_range_or_none(prefix in ".*") {
            if let Some((from, to)) = prefix_range(Some(&prefix)) {
                prop_assert!(from < to);
                prop_assert!(!from.contains('\0') && !to.contains('\0'));
            }
        }

        #[test]
        fn any_cursor_is_ours_or_refused(after in "[a-z0-9.-]{0,12}|[-+0-9]{0,20}|.*") {
            if let Ok(Some(name)) = name_after(&page(&after)) {
                prop_assert!(Hostname::parse_host(&name).is_ok());
            }
            if let Ok(number) = number_after(&page(&after)) {
                prop_assert_eq!(number.to_string(), after);
            }
        }
    }

    #[test]
    fn a_page_knows_whether_there_is_more() {
        let read = |n: &u32| Ok((Some(*n).filter(|n| *n != 2), n.to_string()));
        let page = Page { limit: 2, after: None };
        let full = paged(&[1, 2, 3], &page, read).unwrap();
        // The item that was left out still counts for the cursor.
        assert_eq!((full.items, full.next.as_deref()), (vec![1], Some("2")));
        assert_eq!(paged(&[1, 2], &page, read).unwrap().next, None);
    }
}

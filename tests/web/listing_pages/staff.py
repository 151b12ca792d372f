"""Templates of staff directories with other fields, written and measured after the templates of events."""

from __future__ import annotations

from random import Random

from listing_pages.items import FAMILY, Item
from listing_pages.markup import Template, grouped, repeated


def contact_texts(item: Item, rng: Random) -> dict[str, str]:
    return {"break": "<br>" if item["phone"] and item["mail"] else ""}


def advert_texts(item: Item, rng: Random) -> dict[str, str]:
    advert = "<li class='z-ad'><a>Advert {}</a><span>555-0000</span></li>"
    return {"ad": advert.format(rng.randint(1, 9)) if rng.random() < 0.2 else ""}


STAFF_TEMPLATES: dict[str, Template] = {
    # two values in a cell
    "staff-table": repeated(
        "Staff",
        "<table class='tbl'><thead><tr><th>Name</th><th>Role</th><th>Contact</th></tr></thead><tbody>*</tbody></table>",
        "<tr><td><a href='#'>[name]</a></td><td>[role]</td><td>[phone:Tel. %][break][mail]</td></tr>",
        texts=contact_texts,
    ),
    # cards with a definition list in each
    "staff-cards": repeated(
        "People",
        "<div class='people'>*</div>",
        "<div class='person p[third]'><img src='a.png'><div><span>[name]</span>[role:<span>%</span>]</div>"
        "<dl>[phone:<dt>Phone</dt><dd>%</dd>][mail:<dt>Mail</dt><dd>%</dd>]</dl></div>",
    ),
    # a paragraph for everyone, among other paragraphs
    "staff-paragraphs": repeated(
        "Team",
        "<p>Call us.</p>*<p>Updated weekly</p>",
        "<p><strong>[name]</strong>[role:, %]<br>[phone:%<br>][mail:<a href=x>%</a>]</p>",
    ),
    # articles in sections, with paragraphs that look the same
    "staff-groups": grouped(
        "Groups",
        "*",
        "<section><h3>Group [heading]</h3>*</section>",
        "<article><h4>[name]</h4>[role:<p>%</p>][mail:<p>%</p>][phone:<p>%</p>]</article>",
        6,
        FAMILY,
    ),
    "staff-two-rows": repeated(
        "Faculty",
        "<table>*</table>",
        "<tr class='a'><td>[name]</td><td>[role]</td></tr><tr class='b'><td>[phone]</td><td>[mail]</td></tr>",
    ),
    # items with dashes and commas between values
    "staff-lines": repeated(
        "Directory",
        "<ol>*</ol>",
        "<li>[name] &ndash; [role:<em>%</em>, ][phone] <small>[mail]</small></li>",
    ),
    # four boxes for everyone, and nothing around them
    "staff-flat": repeated(
        "Index",
        "<div>*</div>",
        "<div>[name|n/a]</div><div>[role|n/a]</div><div>[phone|n/a]</div><div>[mail|n/a]</div>",
    ),
    # a list with advertisements that have a phone number
    "staff-ads": repeated(
        "Contacts",
        "<ul class='z-list'>*</ul>",
        "[ad]<li class='z-item'><a>[name]</a>[role:<i>%</i>][phone:<span>%</span>][mail:<span>%</span>]</li>",
        texts=advert_texts,
    ),
}

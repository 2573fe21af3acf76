"""What a model reads and fills in: one template for each prompt (`*.md`), and the response models.

- `rendering`: from a question to a prompt; how stored text is made harmless in it
- `responses`: what a model fills in, as pydantic models

How they work together. Each template has two blocks: `system`, which holds no stored text and is the same for many
calls, and `text` with the data. `rendering` makes a `Prompt` of them: both parts are rendered only if they are needed,
which is never the case where a rule answers. Whatever a template prints is escaped: stored text stands between tags
that it cannot close. Questions are packed, as many into one prompt as its limit and the room for its answer hold.

A model fills in the response model of its prompt (`RESPONSES`). It refers by number to what it was shown, to facts and
entities also by words; the answer has no field for an id of a row. In the long lists of an answer, an item that cannot
be used is dropped, and the others count (`Usable`). The descriptions of the fields are part of the prompt.

The version of a prompt is a hash of its template, its response model and the relations that it lists. It is stored with
what a model wrote. Paid answers are kept by the words of the prompt, so a new version can cost calls, the same words
never do (`inference`). This package calls no model, and knows neither the store nor Prefect.
"""

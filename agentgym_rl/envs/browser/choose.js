function(wanted) {
    const list = this instanceof HTMLOptionElement ? this.closest('select') : this
    if (!(list instanceof HTMLSelectElement)) return false
    const plain = text => text.replace(/\s+/g, ' ').trim()
    const option = this === list
        ? [...list.options].find(one => plain(one.text) === plain(wanted) || one.value === wanted) : this
    if (!option || option.disabled || list.disabled) return false
    list.focus()
    if (list.multiple) option.selected = this === list || !option.selected
    else list.value = option.value, option.selected = true
    list.dispatchEvent(new Event('input', {bubbles: true}))
    list.dispatchEvent(new Event('change', {bubbles: true}))
    return true
}

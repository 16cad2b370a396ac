// A check for clang-tidy that finds nothing: the others then look at what is in this repository and
// not, too, at all of the standard library for every file, which takes them twice as long as all
// the rest. What they find in headers of the system is not shown anyway. scripts/tidy builds and
// loads it.
#include <clang-tidy/ClangTidyCheck.h>
#include <clang-tidy/ClangTidyModule.h>
#include <clang-tidy/ClangTidyModuleRegistry.h>
#include <clang/AST/ASTContext.h>
#include <clang/ASTMatchers/ASTMatchFinder.h>

#include <vector>

namespace {

using clang::ast_matchers::MatchFinder;

class Scope : public clang::tidy::ClangTidyCheck {
 public:
  using ClangTidyCheck::ClangTidyCheck;

  void registerMatchers(MatchFinder* finder) override {
    finder->addMatcher(clang::ast_matchers::translationUnitDecl().bind("unit"), this);
  }

  // The root of the tree, before what is below it: RecursiveASTVisitor's TranslationUnitDecl reads
  // the scope after that.
  void check(const MatchFinder::MatchResult& result) override {
    clang::ASTContext& unit = *result.Context;
    std::vector<clang::Decl*> own;
    // Without loading what is in the precompiled header.
    for (clang::Decl* each : unit.getTranslationUnitDecl()->noload_decls()) {
      const clang::FullSourceLoc at = unit.getFullLoc(each->getLocation());
      if (!each->isFromASTFile() && at.isValid() && !at.isInSystemHeader()) own.push_back(each);
    }
    unit.setTraversalScope(own);
  }
};

class TidyScope : public clang::tidy::ClangTidyModule {
 public:
  void addCheckFactories(clang::tidy::ClangTidyCheckFactories& factories) override {
    factories.registerCheck<Scope>("patchbay-scope");
  }
};

const clang::tidy::ClangTidyModuleRegistry::Add<TidyScope> kRegistered("patchbay",
                                                                       "patchbay-scope");

}  // namespace
